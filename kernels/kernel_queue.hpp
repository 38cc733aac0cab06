#pragma once

#include <cstddef>
#include <span>

#include <cuda_runtime_api.h>

#include "kernels/fault.hpp"

namespace penstock {

/// Parameters that a kernel has at most.
inline constexpr std::size_t most_kernel_arguments = 16;

/// One launch: `arguments` points at each of the kernel's parameters, `sizes` has their bytes.
struct kernel_call {
  const void* kernel = nullptr;
  dim3 grid;
  dim3 block;
  std::span<void* const> arguments;
  std::span<const std::size_t> sizes;
};

/// What a CUDA operation gives its kernels to: they run on one stream, in their order, and may be launched together,
/// which costs the CPU half of a launch for each. What `operation::run` gets as its stream is one of these. Thread: the
/// stream's.
class kernel_queue {
 public:
  kernel_queue() = default;
  kernel_queue(const kernel_queue&) = delete;
  kernel_queue& operator=(const kernel_queue&) = delete;
  virtual ~kernel_queue() = default;

  /// Copies the arguments. The fault may be that of a kernel before it.
  virtual fault add(const kernel_call& call) noexcept = 0;
  /// Launches what was added. For every CUDA call on the stream that is no kernel: before it.
  virtual fault flush() noexcept = 0;
  [[nodiscard]] virtual cudaStream_t stream() const noexcept = 0;

  /// Of what `operation::run` got.
  [[nodiscard]] static kernel_queue& of(void* stream) noexcept { return *static_cast<kernel_queue*>(stream); }
};

}  // namespace penstock
