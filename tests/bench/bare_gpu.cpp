#include "tests/bench/bare_gpu.hpp"

#include <string>

#include <fmt/format.h>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/no_gpu.hpp"

namespace penstock::bench {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

nlohmann::ordered_json use_gpu(const bench_options& options) {
  if (options.backend != "cuda") {
    throw no_gpu("this benchmark measures a GPU: ask for it with --backend cuda");
  }
  int driver = 0;
  int devices = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    throw no_gpu("this benchmark measures a GPU, and this machine has no NVIDIA driver");
  }
  if (const cudaError_t counted = cudaGetDeviceCount(&devices); counted != cudaSuccess || devices == 0) {
    throw no_gpu(fmt::format("this benchmark measures a GPU, and none can be used ({})", cudaGetErrorName(counted)));
  }
  require(cudaSetDevice(0), "cudaSetDevice");
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return {{"backend", "cuda"},
          {"name", properties.name},
          {"detail", fmt::format("driver for CUDA {}, runtime {}, compute capability {}.{}", version_text(driver),
                                 version_text(CUDART_VERSION), properties.major, properties.minor)}};
}

}  // namespace penstock::bench
