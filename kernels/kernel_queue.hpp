#pragma once

#include <cstddef>
#include <span>

#include <cuda_runtime_api.h>

#include "kernels/fault.hpp"

namespace penstock {

/// Parameters that a kernel has at most, and the bytes of all of them.
inline constexpr std::size_t most_kernel_arguments = 16;
inline constexpr std::size_t most_argument_bytes = 4096;

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
  /// For what is no kernel of its own, as a memset or a library's work: makes `call`, which enqueues it on the stream
  /// that it is given and returns its fault, behind the kernels that were added.
  template <class Call>
  fault enqueue(const Call& call) noexcept {
    const fault failed = flush();
    return failed ? failed : call(stream());
  }

  /// Of what `operation::run` got.
  [[nodiscard]] static kernel_queue& of(void* stream) noexcept { return *static_cast<kernel_queue*>(stream); }

 protected:
  /// Launches what was added.
  virtual fault flush() noexcept = 0;
  [[nodiscard]] virtual cudaStream_t stream() const noexcept = 0;
};

}  // namespace penstock
