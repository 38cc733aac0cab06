#include "daemon/device/cuda/kernel_graph.hpp"

namespace penstock {
namespace {

__global__ void nothing() {}

}  // namespace

kernel_graph::kernel_graph(std::size_t kernels, cudaStream_t on, cudaError_t& made) noexcept {
  made = make(kernels, on);
}

kernel_graph::~kernel_graph() {
  if (executable_ != nullptr) {
    static_cast<void>(cudaGraphExecDestroy(executable_));
  }
  if (graph_ != nullptr) {
    static_cast<void>(cudaGraphDestroy(graph_));
  }
}

cudaError_t kernel_graph::make(std::size_t kernels, cudaStream_t on) noexcept {
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
  met = met == cudaSuccess ? cudaGraphLaunch(executable_, on) : met;
  return met == cudaSuccess ? cudaStreamSynchronize(on) : met;
}

cudaError_t kernel_graph::launch(std::span<const cudaKernelNodeParams> kernels, cudaStream_t on) noexcept {
  for (std::size_t kernel = 0; kernel < kernels.size(); ++kernel) {
    if (const cudaError_t met = cudaGraphExecKernelNodeSetParams(executable_, nodes_[kernel], &kernels[kernel]);
        met != cudaSuccess) {
      return met;
    }
  }
  return cudaGraphLaunch(executable_, on);
}

}  // namespace penstock
