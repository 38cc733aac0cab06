#include "tests/bench/operators/device_table.hpp"

#include "tests/bench/bare_cuda.hpp"

namespace penstock::bench {

std::shared_ptr<const float> device_table(const std::vector<float>& numbers) {
  void* made = nullptr;
  const std::size_t bytes = numbers.size() * sizeof(float);
  require(cudaMalloc(&made, bytes), "cudaMalloc");
  std::shared_ptr<const float> table(static_cast<float*>(made), [made](const float*) { cudaFree(made); });
  require(cudaMemcpy(made, numbers.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // other streams do not wait for this one
  return table;
}

}  // namespace penstock::bench
