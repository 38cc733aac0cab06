#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tests/bench/overlap/overlap_work.hpp"

namespace penstock::bench {

/// One way to bring the work through the device.
class overlap_way {
 public:
  overlap_way() = default;
  overlap_way(const overlap_way&) = delete;
  overlap_way& operator=(const overlap_way&) = delete;
  virtual ~overlap_way() = default;

  /// Seconds from the first call until all of the output is in host memory. Throws std::runtime_error.
  virtual double run() = 0;
};

/// The streams that the chunks are spread over.
inline constexpr std::size_t overlap_streams = 8;

/// By bare CUDA calls, nothing of the daemon's but the kernel. nullptr where this program was built without CUDA.
/// On the default stream, from and to ordinary memory:
[[nodiscard]] std::unique_ptr<overlap_way> make_pageable_way(const overlap_buffers& with, const overlap_work& work);
/// On the default stream, from and to pinned memory:
[[nodiscard]] std::unique_ptr<overlap_way> make_pinned_way(const overlap_buffers& with, const overlap_work& work);
/// Chunk after chunk over non-blocking streams in turn: copy in, kernel, copy out, all enqueued at once.
[[nodiscard]] std::unique_ptr<overlap_way> make_bare_way(const overlap_buffers& with, const overlap_work& work,
                                                         std::size_t chunks);

/// The same with a stream callback behind each chunk, and a host that sleeps until all of them have come.
[[nodiscard]] std::unique_ptr<overlap_way> make_told_way(const overlap_buffers& with, const overlap_work& work,
                                                         std::size_t chunks);

/// The same over the streams of the device seam: what takes bare CUDA's place on the host.
[[nodiscard]] std::unique_ptr<overlap_way> make_seam_way(device& on, const overlap_buffers& with, operation& kernel,
                                                         std::size_t chunks);

/// One chunk of the buffers, and a launch of the kernel on it.
struct chunk {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  const void* input = nullptr;
  operation_arguments launch;
};
/// `launch` looks at `input`: they must not move.
[[nodiscard]] std::vector<chunk> chunks_of(const overlap_buffers& with, std::size_t count);

}  // namespace penstock::bench
