#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

#include "kernels/fault.hpp"

namespace penstock {

/// Maximum number of parameters of a kernel, and of bytes of all of them.
inline constexpr std::size_t max_kernel_arguments = 16;
inline constexpr std::size_t max_argument_bytes = 4096;

/// One launch. `kernel` is a function of this module or a cudaKernel_t. `arguments` points to each parameter of the
/// kernel, `sizes` has their bytes.
struct kernel_call {
  const void* kernel = nullptr;
  dim3 grid;
  dim3 block;
  std::span<void* const> arguments;
  std::span<const std::size_t> sizes;
  std::uint32_t shared = 0;  ///< dynamic shared memory of a block, in bytes
  dim3 cluster{1, 1, 1};     ///< blocks of a cluster; other than one, the kernel is launched alone
};

/// Runs kernels on one stream, in order. Several may be launched together, which saves half of the CPU time of a
/// launch. `operation::run` gets one as its stream. Thread: that of the stream.
class kernel_queue {
 public:
  kernel_queue() = default;
  kernel_queue(const kernel_queue&) = delete;
  kernel_queue& operator=(const kernel_queue&) = delete;
  virtual ~kernel_queue() = default;

  /// Copies the arguments. The fault may be that of an earlier kernel.
  virtual fault add(const kernel_call& call) noexcept = 0;
  /// For work other than kernels, such as a memset or a library call: `call` enqueues it on the given stream, after the
  /// kernels that were added, and returns its fault.
  template <class Call>
  fault enqueue(const Call& call) noexcept {
    const fault failed = flush();
    return failed ? failed : call(stream());
  }

  /// The queue that `operation::run` got as its stream.
  [[nodiscard]] static kernel_queue& of(void* stream) noexcept { return *static_cast<kernel_queue*>(stream); }

 protected:
  /// Launches the added kernels.
  virtual fault flush() noexcept = 0;
  [[nodiscard]] virtual cudaStream_t stream() const noexcept = 0;
};

}  // namespace penstock
