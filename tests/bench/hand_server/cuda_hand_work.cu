#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <cuda_runtime_api.h>
#include <unistd.h>

#include "tests/bench/hand_server/hand_work.hpp"
#include "tests/bench/hand_server/mapped_hand_work.hpp"

namespace penstock::bench {
namespace {

constexpr unsigned threads_a_block = 256;

__global__ void twice_and_one(const float* in, float* out, std::size_t count) {
  const std::size_t at = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < count) {
    out[at] = 2.0F * in[at] + 1.0F;
  }
}

void require(cudaError_t status) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA failed: ") + cudaGetErrorName(status));
  }
}

// Immovable: callbacks hold its address.
class cuda_work final : public hand_work {
 public:
  cuda_work(hand_way how, std::size_t bytes, int wake) : how_(how), wake_(wake) {
    void* pinned = nullptr;
    require(cudaHostAlloc(&pinned, bytes, cudaHostAllocDefault));
    pinned_input_ = static_cast<std::byte*>(pinned);
    require(cudaHostAlloc(&pinned, bytes, cudaHostAllocDefault));
    pinned_output_ = static_cast<std::byte*>(pinned);
    require(cudaMalloc(&input_, bytes));
    require(cudaMalloc(&output_, bytes));
    require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    require(cudaEventCreateWithFlags(&finished_, cudaEventDisableTiming));
  }
  ~cuda_work() override {
    cudaStreamSynchronize(stream_);
    cudaEventDestroy(finished_);
    cudaStreamDestroy(stream_);
    cudaFree(output_);
    cudaFree(input_);
    cudaFreeHost(pinned_output_);
    cudaFreeHost(pinned_input_);
  }
  cuda_work(const cuda_work&) = delete;
  cuda_work& operator=(const cuda_work&) = delete;

  std::byte* input() noexcept override { return pinned_input_; }
  const std::byte* output() const noexcept override { return pinned_output_; }

  void start(std::size_t bytes) override {
    const std::size_t count = bytes / sizeof(float);
    const auto blocks = static_cast<unsigned>((count + threads_a_block - 1) / threads_a_block);
    told_.store(false, std::memory_order_relaxed);
    require(cudaMemcpyAsync(input_, pinned_input_, bytes, cudaMemcpyHostToDevice, stream_));
    twice_and_one<<<blocks, threads_a_block, 0, stream_>>>(static_cast<const float*>(input_),
                                                           static_cast<float*>(output_), count);
    require(cudaGetLastError());
    require(cudaMemcpyAsync(pinned_output_, output_, bytes, cudaMemcpyDeviceToHost, stream_));
    if (how_ == hand_way::callback) {
      require(cudaStreamAddCallback(stream_, &cuda_work::tell, this, 0));
    } else {
      require(cudaEventRecord(finished_, stream_));
    }
  }

  bool done() override {
    if (how_ == hand_way::callback) {
      return told_.load(std::memory_order_acquire);
    }
    const cudaError_t status = cudaEventQuery(finished_);
    if (status != cudaErrorNotReady) {
      require(status);
    }
    return status == cudaSuccess;
  }

 private:
  static void CUDART_CB tell(cudaStream_t /*stream*/, cudaError_t /*status*/, void* data) {
    auto& self = *static_cast<cuda_work*>(data);
    self.told_.store(true, std::memory_order_release);
    const std::uint64_t one = 1;
    (void)!::write(self.wake_, &one, sizeof one);
  }

  hand_way how_;
  int wake_;
  std::byte* pinned_input_ = nullptr;
  std::byte* pinned_output_ = nullptr;
  void* input_ = nullptr;
  void* output_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t finished_ = nullptr;
  std::atomic<bool> told_{false};  // written by start() and by the driver's thread, read by done()
};

}  // namespace

std::unique_ptr<hand_work> make_cuda_hand_work(hand_way how, std::size_t bytes, int wake) {
  if (how == hand_way::mapped) {
    return make_mapped_hand_work(bytes);
  }
  return std::make_unique<cuda_work>(how, bytes, wake);
}

}  // namespace penstock::bench
