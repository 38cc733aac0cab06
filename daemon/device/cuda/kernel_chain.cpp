#include "daemon/device/cuda/kernel_chain.hpp"

#include <cstring>
#include <span>

namespace penstock {
namespace {

// CUDA aligns no kernel's parameter further.
constexpr std::size_t alignment = 16;

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

kernel_chain::kernel_chain(cuda_context& context, cudaStream_t on)
    : context_(context), stream_(on), values_(std::make_unique<std::byte[]>(argument_bytes)) {}

kernel_chain::~kernel_chain() {
  context_.enter_regardless();
}

fault kernel_chain::add(const kernel_call& call) noexcept {
  std::size_t bytes = 0;
  for (const std::size_t size : call.sizes) {
    bytes += aligned(size);
  }
  if (call.arguments.size() > most_arguments || bytes > argument_bytes) {
    return {"cudaErrorInvalidValue"};
  }
  if (count_ == most || used_ + bytes > argument_bytes) {
    if (fault failed = flush()) {
      return failed;
    }
  }
  std::array<void*, most_arguments>& places = arguments_[count_];
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
  std::optional<kernel_graph>& graph = graphs_[count_];
  missed_[count_] = missed_[count_] || (!graph && count_ > 1);
  const cudaError_t met = graph ? graph->launch(std::span(kernels_).first(count_), stream_) : launch_each();
  count_ = 0;
  used_ = 0;
  return context_.leave(met);
}

cudaError_t kernel_chain::launch_each() noexcept {
  for (const cudaKernelNodeParams& each : std::span(kernels_).first(count_)) {
    if (const cudaError_t met = cudaLaunchKernel(each.func, each.gridDim, each.blockDim, each.kernelParams, 0, stream_);
        met != cudaSuccess) {
      return met;
    }
  }
  return cudaSuccess;
}

void kernel_chain::prepare() noexcept {
  for (std::size_t kernels = 0; kernels <= most; ++kernels) {
    if (!missed_[kernels]) {
      continue;
    }
    cudaError_t made = cudaSuccess;
    graphs_[kernels].emplace(kernels, stream_, made);
    if (context_.leave(made)) {
      graphs_[kernels].reset();
    }
  }
  missed_.reset();
}

}  // namespace penstock
