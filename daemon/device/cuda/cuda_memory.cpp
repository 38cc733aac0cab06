#include "daemon/device/cuda/cuda_memory.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace penstock {
namespace {

// Both allocators give 256-byte alignment or better to blocks of at least that size.
std::size_t rounded(std::size_t bytes) noexcept {
  return std::max<std::size_t>(bytes, 256);
}

}  // namespace

std::byte* allocate_cuda_memory(cuda_context& context, std::size_t bytes) {
  void* memory = nullptr;
  context.enter_or_throw();
  context.require(cudaMalloc(&memory, rounded(bytes)), "no device memory for a buffer of " + std::to_string(bytes) +
                                                           " bytes (configure fewer slots or smaller batches)");
  const cudaError_t cleared = cudaMemsetAsync(memory, 0, rounded(bytes), cudaStreamPerThread);
  const cudaError_t waited = cudaStreamSynchronize(cudaStreamPerThread);
  if (cleared != cudaSuccess || waited != cudaSuccess) {
    free_cuda_memory(context, static_cast<std::byte*>(memory));
    context.require(cleared != cudaSuccess ? cleared : waited, "device memory can't be cleared");
  }
  return static_cast<std::byte*>(memory);
}

void free_cuda_memory(cuda_context& context, std::byte* memory) noexcept {
  context.enter_regardless();
  static_cast<void>(context.leave(cudaFree(memory)));
}

std::byte* allocate_cuda_pinned(cuda_context& context, std::size_t bytes) {
  void* memory = nullptr;
  context.enter_or_throw();
  context.require(cudaHostAlloc(&memory, rounded(bytes), cudaHostAllocPortable),
                  "no pinned memory for a buffer of " + std::to_string(bytes) +
                      " bytes (configure fewer slots or smaller batches)");
  std::memset(memory, 0, rounded(bytes));
  return static_cast<std::byte*>(memory);
}

void free_cuda_pinned(cuda_context& context, std::byte* memory) noexcept {
  context.enter_regardless();
  static_cast<void>(context.leave(cudaFreeHost(memory)));
}

void pin_for_cuda(cuda_context& context, std::byte* memory, std::size_t bytes) {
  context.enter_or_throw();
  context.require(cudaHostRegister(memory, bytes, cudaHostRegisterPortable),
                  "memory of " + std::to_string(bytes) + " bytes can't be pinned");
}

void unpin_for_cuda(cuda_context& context, std::byte* memory) noexcept {
  context.enter_regardless();
  static_cast<void>(context.leave(cudaHostUnregister(memory)));
}

}  // namespace penstock
