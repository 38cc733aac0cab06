#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace penstock::bench {

/// Equal pieces of mapped host memory, and one area of device memory that they make up in their order. Everything is
/// aligned to 16 bytes and a multiple of them. It travels as a kernel's parameter: at most 4 KiB.
struct piece_list {
  static constexpr unsigned most = 256;
  std::byte* host[most];
  std::byte* device;
  unsigned pieces;
  unsigned piece_bytes;
};

/// They enqueue, and throw std::runtime_error when the launch fails. Host to device:
void launch_gather(cudaStream_t on, const piece_list& list);
/// Device to host:
void launch_scatter(cudaStream_t on, const piece_list& list);

}  // namespace penstock::bench
