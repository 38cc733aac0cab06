#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <memory>
#include <optional>

#include <cuda_runtime_api.h>

#include "daemon/device/cuda/cuda_context.hpp"
#include "daemon/device/cuda/kernel_graph.hpp"
#include "kernels/kernel_queue.hpp"

namespace penstock {

/// The kernels that a stream's operations have added and that are not launched yet.
///
/// They are launched together, as the nodes of a CUDA graph of so many: one call, and for each kernel one that sets a
/// node, which costs the CPU half of a launch. A graph is made ahead (`prepare`), when as many kernels were launched
/// once; kernels for which there is none, or a single one, are launched one by one. Thread: the stream's.
class kernel_chain final : public kernel_queue {
 public:
  kernel_chain(cuda_context& context, cudaStream_t on);
  ~kernel_chain() override;

  fault add(const kernel_call& call) noexcept override;
  fault flush() noexcept override;
  [[nodiscard]] cudaStream_t stream() const noexcept override { return stream_; }

  /// Makes the graphs that were missed since the last time, and waits for the stream. Start-up and tests only. A graph
  /// that can't be made is done without.
  void prepare() noexcept;

 private:
  static constexpr std::size_t most = kernel_graph::most;
  static constexpr std::size_t most_arguments = 16;
  static constexpr std::size_t argument_bytes = 16384;

  [[nodiscard]] cudaError_t launch_each() noexcept;

  cuda_context& context_;
  const cudaStream_t stream_;
  std::array<cudaKernelNodeParams, most> kernels_{};
  std::array<std::array<void*, most_arguments>, most> arguments_{};  // of each kernel, in `values_`
  std::size_t count_ = 0;
  const std::unique_ptr<std::byte[]> values_;
  std::size_t used_ = 0;
  std::array<std::optional<kernel_graph>, most + 1> graphs_;  // by their kernels
  std::bitset<most + 1> missed_;
};

}  // namespace penstock
