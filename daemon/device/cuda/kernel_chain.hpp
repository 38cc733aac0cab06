#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "daemon/device/cuda/cuda_context.hpp"
#include "daemon/device/cuda/kernel_graph.hpp"
#include "kernels/kernel_queue.hpp"

namespace penstock {

/// The kernels that a stream's operations have added and that are not launched yet.
///
/// They are launched together, as the nodes of a CUDA graph of so many: one call, and for each kernel one that sets a
/// node, which costs the CPU half of a launch. There is one for each number from two on, made with the stream; one
/// kernel alone is launched. Thread: the stream's.
class kernel_chain final : public kernel_queue {
 public:
  /// Waits for the stream. Throws device_error.
  kernel_chain(cuda_context& context, cudaStream_t on);
  /// What was not launched never is.
  ~kernel_chain() override;

  fault add(const kernel_call& call) noexcept override;
  fault flush() noexcept override;

 private:
  static constexpr std::size_t most = kernel_graph::most;
  static constexpr std::size_t argument_bytes = 4 * most_argument_bytes;

  [[nodiscard]] cudaStream_t stream() const noexcept override { return stream_; }
  [[nodiscard]] cudaError_t launch_all() noexcept;

  cuda_context& context_;
  const cudaStream_t stream_;
  std::array<cudaKernelNodeParams, most> kernels_{};
  std::array<std::array<void*, most_kernel_arguments>, most> arguments_{};  // of each kernel, in `values_`
  std::size_t count_ = 0;
  const std::unique_ptr<std::byte[]> values_;
  std::size_t used_ = 0;
  std::vector<kernel_graph> graphs_;  // of two kernels, of three, …
};

}  // namespace penstock
