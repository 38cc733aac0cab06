#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"
#include "kernels/operation.hpp"

namespace penstock::bench {

/// The work of the overlap benchmark: rows of f32, each correlated with `taps` taps; as many bytes out as in.
struct overlap_work {
  static constexpr std::size_t row = 8192;  ///< samples
  std::size_t rows = 2048;
  std::size_t taps = 1;

  [[nodiscard]] std::size_t bytes() const noexcept { return rows * row * sizeof(float); }
  /// A daemon whose batches are one chunk each.
  [[nodiscard]] std::string configuration(std::size_t chunks) const;
  /// The operation for batches of up to all rows.
  [[nodiscard]] std::unique_ptr<operation> compile(device& target) const;
  /// The same by the kernel's own factory, without our device.
  [[nodiscard]] std::unique_ptr<operation> compile(make_operation factory) const;
};

/// All input and output, pinned and on the device. The input is random.
struct overlap_buffers {
  overlap_buffers(device& target, const overlap_work& work);

  std::size_t rows;
  device_memory pinned_input;
  device_memory pinned_output;
  device_memory input;
  device_memory output;
  device_memory scratch;  ///< `scratch_stride` for each chunk
  std::size_t scratch_stride = 0;
};

/// A part of the buffers and its launch.
struct chunk {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  const void* input = nullptr;
  operation_arguments launch;  ///< points at `input`: a chunk must not move
};
[[nodiscard]] std::vector<chunk> chunks_of(const overlap_buffers& buffers, std::size_t count);

inline constexpr std::size_t overlap_streams = 8;

/// One way to bring the work through the device.
class overlap_way {
 public:
  overlap_way() = default;
  overlap_way(const overlap_way&) = delete;
  overlap_way& operator=(const overlap_way&) = delete;
  virtual ~overlap_way() = default;

  /// Seconds until all of the output is in host memory. Throws std::runtime_error.
  virtual double run() = 0;
};

/// Plain CUDA with nothing of ours but the kernel; nullptr in a build without CUDA. On the default stream with ordinary
/// memory, as simple programs do it:
[[nodiscard]] std::unique_ptr<overlap_way> make_pageable_way(const overlap_buffers& buffers, const overlap_work& work);
/// Chunk after chunk over non-blocking streams in turn, all enqueued at once:
[[nodiscard]] std::unique_ptr<overlap_way> make_bare_way(const overlap_buffers& buffers, const overlap_work& work,
                                                         std::size_t chunks);

}  // namespace penstock::bench
