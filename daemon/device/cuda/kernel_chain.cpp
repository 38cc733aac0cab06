#include "daemon/device/cuda/kernel_chain.hpp"

#include <cstring>
#include <span>

namespace penstock {
namespace {

// Of the copies, which CUDA reads as bytes.
constexpr std::size_t alignment = 16;

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

kernel_chain::kernel_chain(cuda_context& context, cudaStream_t on)
    : context_(context), stream_(on), values_(std::make_unique<std::byte[]>(argument_bytes)) {
  graphs_.reserve(most - 1);
  for (std::size_t kernels = 2; kernels <= most; ++kernels) {
    cudaError_t made = cudaSuccess;
    graphs_.emplace_back(kernels, stream_, made);
    context_.require(made, "no CUDA graph");
  }
}

kernel_chain::~kernel_chain() {
  context_.enter_regardless();
}

fault kernel_chain::add(const kernel_call& call) noexcept {
  static_assert(most_argument_bytes + most_kernel_arguments * alignment <= argument_bytes, "one kernel has room");
  std::size_t bytes = 0;
  for (const std::size_t size : call.sizes) {
    bytes += aligned(size);
  }
  if (count_ == most || used_ + bytes > argument_bytes) {
    if (fault failed = flush()) {
      return failed;
    }
  }
  std::array<void*, most_kernel_arguments>& places = arguments_[count_];
  for (std::size_t index = 0; index < call.arguments.size(); ++index) {
    places[index] = values_.get() + used_;
    std::memcpy(places[index], call.arguments[index], call.sizes[index]);
    used_ += aligned(call.sizes[index]);
  }
  cudaKernelNodeParams& added = kernels_[count_++];
  added.func = const_cast<void*>(call.kernel);
  added.gridDim = call.grid;
  added.blockDim = call.block;
  added.kernelParams = places.data();
  return {};
}

fault kernel_chain::flush() noexcept {
  if (count_ == 0) {
    return {};
  }
  const cudaError_t met = launch_all();
  count_ = 0;
  used_ = 0;
  return context_.leave(met);
}

cudaError_t kernel_chain::launch_all() noexcept {
  const std::span kernels = std::span(kernels_).first(count_);
  if (count_ > 1) {
    return graphs_[count_ - 2].launch(kernels, stream_);
  }
  const cudaKernelNodeParams& sole = kernels.front();
  return cudaLaunchKernel(sole.func, sole.gridDim, sole.blockDim, sole.kernelParams, 0, stream_);
}

}  // namespace penstock
