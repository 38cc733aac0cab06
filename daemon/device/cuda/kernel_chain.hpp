#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "daemon/device/cuda/cuda_context.hpp"
#include "kernels/kernel_queue.hpp"

namespace penstock {

/// Owns a CUDA graph of kernels in a row, whose functions and arguments are set before each launch. What is enqueued
/// keeps what it was enqueued with. Empty when moved from.
class kernel_graph {
 public:
  static constexpr std::size_t most = 8;  ///< kernels

  /// A graph of `kernels` empty kernels, at most `most`. It is launched once on the stream and waited for, so that no
  /// later launch is the first. On failure `made` says why, and the graph can only be destroyed.
  kernel_graph(std::size_t kernels, cudaStream_t stream, cudaError_t& made) noexcept;
  kernel_graph(kernel_graph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)),
        executable_(std::exchange(other.executable_, nullptr)),
        nodes_(other.nodes_) {}
  kernel_graph& operator=(kernel_graph&&) = delete;
  ~kernel_graph();

  /// Enqueues these kernels, as many as the graph has nodes.
  [[nodiscard]] cudaError_t launch(std::span<const cudaKernelNodeParams> kernels, cudaStream_t stream) noexcept;

 private:
  [[nodiscard]] cudaError_t make(std::size_t kernels, cudaStream_t stream) noexcept;

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::array<cudaGraphNode_t, most> nodes_{};
};

/// The kernels that a stream's operations have added and that are not launched yet. They are launched together, as a
/// CUDA graph with one node a kernel: setting a node costs the CPU half as much as a launch. There is a graph for each
/// number of kernels from two on, made with the stream; a single kernel is launched by itself. Thread: the stream's.
class kernel_chain final : public kernel_queue {
 public:
  /// Waits for the stream. Throws device_error.
  kernel_chain(cuda_context& context, cudaStream_t stream);
  /// What was not launched never is.
  ~kernel_chain() override;

  fault add(const kernel_call& call) noexcept override;
  fault flush() noexcept override;

 private:
  static constexpr std::size_t most = kernel_graph::most;
  static constexpr std::size_t argument_bytes = 4 * max_argument_bytes;

  [[nodiscard]] cudaStream_t stream() const noexcept override { return stream_; }
  [[nodiscard]] cudaError_t launch_all() noexcept;

  cuda_context& context_;
  const cudaStream_t stream_;
  std::array<cudaKernelNodeParams, most> kernels_{};
  std::array<std::array<void*, max_kernel_arguments>, most> arguments_{};  // of each kernel, in `values_`
  std::size_t count_ = 0;
  const std::unique_ptr<std::byte[]> values_;
  std::size_t used_ = 0;
  std::vector<kernel_graph> graphs_;  // of two kernels, of three, …
};

}  // namespace penstock
