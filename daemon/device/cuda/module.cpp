#include <memory>

#include <cuda_runtime_api.h>

#include "daemon/device/cuda/cuda_context.hpp"
#include "daemon/device/cuda/cuda_device.hpp"
#include "daemon/device/cuda/module_loader.hpp"
#include "penstock_version.hpp"

namespace {

std::unique_ptr<penstock::device> open_device_of_id(int id) {
  return std::make_unique<penstock::cuda_device>(id);
}

int count_devices() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

penstock::stream_priority_range priorities_of_id(int id) {
  penstock::cuda_context context(id);
  context.enter_or_throw();
  penstock::stream_priority_range range;
  context.require(cudaDeviceGetStreamPriorityRange(&range.lowest, &range.highest),
                  "the CUDA device does not tell its stream priorities");
  return range;
}

constexpr penstock::cuda_module_table module_table{.abi = penstock::cuda_module_abi,
                                                   .version = penstock::version,
                                                   .open = open_device_of_id,
                                                   .count = count_devices,
                                                   .priorities = priorities_of_id};

}  // namespace

// Its name is cuda_module_symbol.
extern "C" __attribute__((visibility("default"))) const penstock::cuda_module_table*
penstock_cuda_module_v1() noexcept {
  return &module_table;
}
