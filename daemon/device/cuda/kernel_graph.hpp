#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include <cuda_runtime_api.h>

namespace penstock {

/// Owns a CUDA graph of kernels one behind the other, which take other functions and arguments before each launch.
/// Empty when moved from. A launch that is enqueued keeps what it was enqueued with.
class kernel_graph {
 public:
  static constexpr std::size_t most = 8;  ///< kernels

  /// So many kernels, at most `most`, that do nothing. It is launched once on the stream and waited for, so that no
  /// later launch is the first. On failure `made` says why, and the graph can only be destroyed.
  kernel_graph(std::size_t kernels, cudaStream_t on, cudaError_t& made) noexcept;
  kernel_graph(kernel_graph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)),
        executable_(std::exchange(other.executable_, nullptr)),
        nodes_(other.nodes_) {}
  kernel_graph& operator=(kernel_graph&&) = delete;
  ~kernel_graph();

  /// Enqueues these, as many as it has nodes.
  [[nodiscard]] cudaError_t launch(std::span<const cudaKernelNodeParams> kernels, cudaStream_t on) noexcept;

 private:
  [[nodiscard]] cudaError_t make(std::size_t kernels, cudaStream_t on) noexcept;

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::array<cudaGraphNode_t, most> nodes_{};
};

}  // namespace penstock
