#include "tests/bench/bare_cuda.hpp"

#include <cstdio>
#include <cstring>
#include <ctime>
#include <stdexcept>

#include <fmt/format.h>

namespace penstock::bench {
namespace {

double cpu_seconds(clockid_t of) {
  timespec time{};
  ::clock_gettime(of, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

void require(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw std::runtime_error(
        fmt::format("{} failed: {} ({})", call, cudaGetErrorName(status), cudaGetErrorString(status)));
  }
}

bare_stream make_bare_stream() {
  cudaStream_t made = nullptr;
  require(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return bare_stream(made);
}

bare_event make_bare_event() {
  cudaEvent_t made = nullptr;
  require(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return bare_event(made);
}

bare_device_memory make_bare_device_memory(std::size_t bytes) {
  void* made = nullptr;
  require(cudaMalloc(&made, bytes), "cudaMalloc");
  bare_device_memory memory(static_cast<std::byte*>(made));
  require(cudaMemset(made, 0, bytes), "cudaMemset");
  require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // other streams do not wait for this one
  return memory;
}

bare_pinned_memory make_bare_pinned_memory(std::size_t bytes) {
  void* made = nullptr;
  require(cudaHostAlloc(&made, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
  bare_pinned_memory memory(static_cast<std::byte*>(made));
  std::memset(made, 0, bytes);
  return memory;
}

#if CUDART_VERSION >= 13000
void copy_together(void* const* to, const void* const* from, const std::size_t* bytes, std::size_t count,
                   cudaStream_t on) {
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  require(cudaMemcpyBatchAsync(to, from, bytes, count, &attributes, &first, 1, on), "cudaMemcpyBatchAsync");
}
#else
void copy_together(void* const*, const void* const*, const std::size_t*, std::size_t, cudaStream_t) {
  throw std::runtime_error("cudaMemcpyBatchAsync needs the runtime of CUDA 13");
}
#endif

bool can_copy_together() {
  static const bool can = [] {
    const bare_pinned_memory source = make_bare_pinned_memory(16);
    const bare_device_memory target = make_bare_device_memory(16);
    const bare_stream on = make_bare_stream();
    void* const to = target.get();
    const void* const from = source.get();
    const std::size_t bytes = 16;
    try {
      copy_together(&to, &from, &bytes, 1, on.get());
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "without batched copies: %s\n", error.what());
      return false;
    }
    require(cudaStreamSynchronize(on.get()), "cudaStreamSynchronize");
    return true;
  }();
  return can;
}

double process_cpu_seconds() {
  return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double thread_cpu_seconds() {
  return cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace penstock::bench
