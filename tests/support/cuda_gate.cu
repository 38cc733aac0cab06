#include <atomic>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>

#include "kernels/launch.cuh"
#include "tests/support/gate.hpp"

namespace penstock::testing {
namespace {

// One gate's words in pinned memory: the host writes `open`, the kernel writes `entered`.
struct alignas(64) latch {
  unsigned open;
  unsigned entered;
};

constexpr std::size_t latch_count = 256;
constexpr unsigned long long fuse_ns = 20'000'000'000ULL;

__device__ unsigned long long now_ns() {
  unsigned long long time = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void spin_until_open(volatile latch* words) {
  words->entered = 1;
  __threadfence_system();
  const unsigned long long start = now_ns();
  while (words->open == 0 && now_ns() - start < fuse_ns) {
    __nanosleep(500);
  }
}

__global__ void write_through(volatile int* where) {
  *where = 1;
}

void require(cudaError_t error, const char* call) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(error));
  }
}

// At once: a gate is in its place whatever is called after it.
template <class Parameter>
fault launch_now(void* stream, void (*kernel)(Parameter), Parameter argument) noexcept {
  return kernel_queue::of(stream).enqueue([&](cudaStream_t target) {
    kernel<<<1, 1, 0, target>>>(argument);
    return cuda_fault(cudaGetLastError());
  });
}

class cuda_gate final : public gate {
 public:
  explicit cuda_gate(latch& words) noexcept : words_(words) {}

  void open() noexcept override { std::atomic_ref(words_.open).store(1); }
  [[nodiscard]] bool entered() const noexcept override { return std::atomic_ref(words_.entered).load() != 0; }

  fault run(void* stream, const operation_arguments&) noexcept override {
    return launch_now<volatile latch*>(stream, spin_until_open, &words_);
  }

 private:
  latch& words_;
};

// Writes to an address that nothing is mapped at.
class cuda_faulty final : public operation {
 public:
  fault run(void* stream, const operation_arguments&) noexcept override {
    return launch_now<volatile int*>(stream, write_through, nullptr);
  }
};

class cuda_gates final : public gate_maker {
 public:
  cuda_gates() {
    void* words = nullptr;
    require(cudaHostAlloc(&words, latch_count * sizeof(latch), cudaHostAllocPortable | cudaHostAllocMapped),
            "no pinned memory for gates");
    latches_ = static_cast<latch*>(words);
    for (std::size_t index = 0; index < latch_count; ++index) {
      new (latches_ + index) latch{0, 0};
    }
    cudaFuncAttributes loaded{};
    require(cudaFuncGetAttributes(&loaded, write_through), "the faulty kernel can't be loaded");
    const std::unique_ptr<gate> first = make();
    first->open();
    immediate_queue now;
    if (fault refused = first->run(&now, {})) {
      throw std::runtime_error(std::string("the gate's kernel can't be launched: ") + refused.name);
    }
    require(cudaStreamSynchronize(nullptr), "the gate's kernel does not run");
  }
  ~cuda_gates() override { cudaFreeHost(latches_); }

  std::unique_ptr<gate> make() override {
    if (used_ == latch_count) {
      throw std::runtime_error("a test uses more gates than there are");
    }
    return std::make_unique<cuda_gate>(latches_[used_++]);
  }
  std::unique_ptr<operation> make_faulty() override { return std::make_unique<cuda_faulty>(); }
  [[nodiscard]] const char* fault_name() const noexcept override { return "cudaErrorIllegalAddress"; }

 private:
  latch* latches_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace

std::unique_ptr<gate_maker> make_cuda_gates() {
  return std::make_unique<cuda_gates>();
}

}  // namespace penstock::testing
