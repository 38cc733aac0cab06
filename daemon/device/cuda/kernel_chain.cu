#include <cstring>
#include <span>

#include "daemon/device/cuda/kernel_chain.hpp"

namespace penstock {
namespace {

__global__ void nothing() {}

constexpr std::size_t alignment = 16;  // of copied arguments, which CUDA reads as bytes

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

// Takes a copy of the arguments, as every launch does.
cudaError_t launch_clusters(const kernel_call& call, cudaStream_t stream) noexcept {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = call.cluster.x;
  attribute.val.clusterDim.y = call.cluster.y;
  attribute.val.clusterDim.z = call.cluster.z;
  cudaLaunchConfig_t launch{};
  launch.gridDim = call.grid;
  launch.blockDim = call.block;
  launch.dynamicSmemBytes = call.shared;
  launch.stream = stream;
  launch.attrs = &attribute;
  launch.numAttrs = 1;
  return cudaLaunchKernelExC(&launch, call.kernel, const_cast<void**>(call.arguments.data()));
}

}  // namespace

kernel_graph::kernel_graph(std::size_t kernels, cudaStream_t stream, cudaError_t& made) noexcept {
  made = make(kernels, stream);
}

kernel_graph::~kernel_graph() {
  if (executable_ != nullptr) {
    static_cast<void>(cudaGraphExecDestroy(executable_));
  }
  if (graph_ != nullptr) {
    static_cast<void>(cudaGraphDestroy(graph_));
  }
}

cudaError_t kernel_graph::make(std::size_t kernels, cudaStream_t stream) noexcept {
  cudaError_t met = cudaGraphCreate(&graph_, 0);
  cudaKernelNodeParams empty{};
  empty.func = reinterpret_cast<void*>(&nothing);
  empty.gridDim = dim3(1);
  empty.blockDim = dim3(1);
  for (std::size_t kernel = 0; kernel < kernels && met == cudaSuccess; ++kernel) {
    met = cudaGraphAddKernelNode(&nodes_[kernel], graph_, kernel == 0 ? nullptr : &nodes_[kernel - 1],
                                 kernel == 0 ? 0 : 1, &empty);
  }
  met = met == cudaSuccess ? cudaGraphInstantiate(&executable_, graph_, 0) : met;
  met = met == cudaSuccess ? cudaGraphLaunch(executable_, stream) : met;
  return met == cudaSuccess ? cudaStreamSynchronize(stream) : met;
}

cudaError_t kernel_graph::launch(std::span<const cudaKernelNodeParams> kernels, cudaStream_t stream) noexcept {
  for (std::size_t kernel = 0; kernel < kernels.size(); ++kernel) {
    if (const cudaError_t met = cudaGraphExecKernelNodeSetParams(executable_, nodes_[kernel], &kernels[kernel]);
        met != cudaSuccess) {
      return met;
    }
  }
  return cudaGraphLaunch(executable_, stream);
}

kernel_chain::kernel_chain(cuda_context& context, cudaStream_t stream)
    : context_(context), stream_(stream), values_(std::make_unique<std::byte[]>(argument_bytes)) {
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
  if (call.cluster.x * call.cluster.y * call.cluster.z != 1) {
    const fault failed = flush();
    return failed ? failed : context_.leave(launch_clusters(call, stream_));
  }
  static_assert(max_argument_bytes + max_kernel_arguments * alignment <= argument_bytes, "one kernel has room");
  std::size_t bytes = 0;
  for (const std::size_t size : call.sizes) {
    bytes += aligned(size);
  }
  if (count_ == most || used_ + bytes > argument_bytes) {
    if (fault failed = flush()) {
      return failed;
    }
  }
  std::array<void*, max_kernel_arguments>& places = arguments_[count_];
  for (std::size_t index = 0; index < call.arguments.size(); ++index) {
    places[index] = values_.get() + used_;
    std::memcpy(places[index], call.arguments[index], call.sizes[index]);
    used_ += aligned(call.sizes[index]);
  }
  cudaKernelNodeParams& added = kernels_[count_++];
  added.func = const_cast<void*>(call.kernel);
  added.gridDim = call.grid;
  added.blockDim = call.block;
  added.sharedMemBytes = call.shared;
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
  return cudaLaunchKernel(sole.func, sole.gridDim, sole.blockDim, sole.kernelParams, sole.sharedMemBytes, stream_);
}

}  // namespace penstock
