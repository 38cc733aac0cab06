#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/link/gather.hpp"
#include "tests/bench/link/host_region.hpp"

namespace penstock::bench {

enum class direction { in, out };

/// How many small pieces get to the device as one, or from there to their places.
enum class piece_way {
  one_copy,       ///< the limit: as many bytes that lie together, by one copy
  copy_each,      ///< cudaMemcpyAsync for each
  batched,        ///< one cudaMemcpyBatchAsync
  kernel,         ///< a kernel that reads or writes mapped memory
  host_and_copy,  ///< memcpy into pinned memory, and one copy from there; only in
};
[[nodiscard]] const char* name_of(piece_way way);
[[nodiscard]] std::vector<piece_way> ways_for(direction to);

struct piece_shape {
  std::size_t pieces;  ///< at most piece_list::most
  std::size_t bytes;   ///< of each, a multiple of 16
};

/// Pieces spread over a registered memfd, as clients would leave them in shared memory. One thread uses it.
class piece_group {
 public:
  /// Moves them once each way, so that all is loaded; throws std::runtime_error when that gives wrong bytes.
  explicit piece_group(piece_shape shape);

  /// Enqueues the whole group; never waits. Memory is used again by every call, with the same bytes in it.
  void enqueue(piece_way way, direction to, cudaStream_t on);

 private:
  void copy_whole(direction to, cudaStream_t on);
  void copy_each(direction to, cudaStream_t on);
  void copy_batched(direction to, cudaStream_t on);
  void gather_on_host(cudaStream_t on);
  void fill(int salt);
  void check(piece_way way, direction to, cudaStream_t on);

  const piece_shape shape_;
  const std::size_t whole_bytes_;
  host_region arena_;
  bare_pinned_memory staging_;
  bare_device_memory device_;
  piece_list list_{};
  std::vector<void*> host_places_;
  std::vector<void*> device_places_;
  std::vector<std::size_t> sizes_;
};

}  // namespace penstock::bench
