#pragma once

#include <cstddef>
#include <memory>

#include <cuda_runtime_api.h>

namespace penstock::bench {

/// Throws std::runtime_error with the call's name and the error's unless it succeeded.
void require(cudaError_t status, const char* call);

template <auto Close>
struct closes {
  template <typename Pointed>
  void operator()(Pointed* handle) const noexcept {
    static_cast<void>(Close(handle));
  }
};

using bare_stream = std::unique_ptr<CUstream_st, closes<cudaStreamDestroy>>;
using bare_event = std::unique_ptr<CUevent_st, closes<cudaEventDestroy>>;
using bare_graph = std::unique_ptr<CUgraph_st, closes<cudaGraphDestroy>>;
using bare_program = std::unique_ptr<CUgraphExec_st, closes<cudaGraphExecDestroy>>;
using bare_device_memory = std::unique_ptr<std::byte[], closes<cudaFree>>;
using bare_pinned_memory = std::unique_ptr<std::byte[], closes<cudaFreeHost>>;

/// Non-blocking.
[[nodiscard]] bare_stream make_bare_stream();
/// Without timing.
[[nodiscard]] bare_event make_bare_event();
/// All zero.
[[nodiscard]] bare_device_memory make_bare_device_memory(std::size_t bytes);
/// All zero, and mapped: kernels reach it at the same address.
[[nodiscard]] bare_pinned_memory make_bare_pinned_memory(std::size_t bytes);

/// Whether this runtime and driver have cudaMemcpyBatchAsync in its present form; tried once, with a copy.
[[nodiscard]] bool can_copy_together();
/// So many copies by one call of it.
void copy_together(void* const* to, const void* const* from, const std::size_t* bytes, std::size_t count,
                   cudaStream_t on);

/// CPU seconds of this process, or of this thread, so far.
[[nodiscard]] double process_cpu_seconds();
[[nodiscard]] double thread_cpu_seconds();

}  // namespace penstock::bench
