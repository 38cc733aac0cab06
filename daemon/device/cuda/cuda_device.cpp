#include "daemon/device/cuda/cuda_device.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "daemon/device/cuda/blocking_stream.hpp"
#include "daemon/device/cuda/cuda_stream.hpp"
#include "kernels/operation.hpp"

namespace penstock {
namespace {

// Two copies take longer than a kernel takes to go over as much in the host's memory.
constexpr std::size_t least_copied = std::size_t{16} << 10U;

// CUDA writes 13.0 as 13000 and 12.4 as 12040.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Throws unless the driver serves this runtime and there is a device of that number.
std::string check_driver(int id) {
  int driver = 0;
  int devices = 0;
  const cudaError_t asked = cudaDriverGetVersion(&driver);
  if (asked != cudaSuccess || driver == 0) {
    throw device_error("this machine has no NVIDIA driver: install it, and check with nvidia-smi");
  }
  std::string versions = "driver for CUDA " + version_text(driver) + ", runtime " + version_text(CUDART_VERSION);
  const cudaError_t counted = cudaGetDeviceCount(&devices);
  if (counted == cudaErrorInsufficientDriver) {
    throw device_error("the NVIDIA driver is too old (" + versions + "): update the driver");
  }
  if (counted != cudaSuccess || devices == 0) {
    throw device_error(std::string("no CUDA device can be used (") +
                       (counted != cudaSuccess ? cudaGetErrorName(counted) : "there is none") + "; " + versions +
                       "): check nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  if (id < 0 || id >= devices) {
    throw device_error("there is no CUDA device " + std::to_string(id) + ": this machine has " +
                       std::to_string(devices) + ", numbered from 0 (see device.ids)");
  }
  return versions;
}

// Both allocators align blocks of at least 256 bytes to 256 bytes or more.
std::size_t rounded(std::size_t bytes) noexcept {
  return std::max<std::size_t>(bytes, 256);
}

std::string no_memory(const std::string& kind, std::size_t bytes) {
  return "no " + kind + " memory for a buffer of " + std::to_string(bytes) +
         " bytes (configure fewer slots or smaller batches)";
}

// Empty where CUDA does not tell, as for a device that is no PCI device.
std::string bus_id_of(int id) {
  char text[32] = {};
  return cudaDeviceGetPCIBusId(text, sizeof text, id) == cudaSuccess ? text : "";
}

}  // namespace

cuda_device::cuda_device(int id) : context_(std::make_shared<cuda_context>(id)) {
  cuda_context::learn_fault_names();
  std::string versions = check_driver(id);
  context_->enter_or_throw();
  cudaDeviceProp properties{};
  context_->require(cudaGetDeviceProperties(&properties, id), "the CUDA device does not tell what it is");
  context_->require(cudaDeviceGetStreamPriorityRange(&lowest_priority_, &highest_priority_),
                    "the CUDA device does not tell its stream priorities");
  facts_ = {.backend = "cuda",
            .name = properties.name,
            .detail = versions + ", compute capability " + std::to_string(properties.major) + "." +
                      std::to_string(properties.minor),
            .memory_bytes = properties.totalGlobalMem,
            .pci_bus_id = bus_id_of(id),
            .at_once = 0,
            .direct_bytes = 0,
            .single_pass_bytes = least_copied,
            .events_come_first = true,
            .architecture = "sm_" + std::to_string(10 * properties.major + properties.minor)};
  exporter_ = cuda_exporter::open(id);
  facts_.exporter = exporter_ ? exporter_->uuid() : "";
  probe_ = std::make_unique<event_handle>(make_event(*context_, false));
  context_->require(cudaEventRecord(probe_->get(), cudaStreamPerThread), "the CUDA device does not take work");
  context_->require(cudaStreamSynchronize(cudaStreamPerThread), "the CUDA device does not do its work");
}

std::byte* cuda_device::take_pinned(std::size_t bytes) {
  void* memory = nullptr;
  context_->enter_or_throw();
  context_->require(cudaHostAlloc(&memory, rounded(bytes), cudaHostAllocPortable), no_memory("pinned", bytes));
  std::memset(memory, 0, rounded(bytes));
  return static_cast<std::byte*>(memory);
}

void cuda_device::free_pinned(std::byte* memory) noexcept {
  context_->enter_regardless();
  static_cast<void>(context_->leave(cudaFreeHost(memory)));
}

std::byte* cuda_device::take_device(std::size_t bytes) {
  void* memory = nullptr;
  context_->enter_or_throw();
  context_->require(cudaMalloc(&memory, rounded(bytes)), no_memory("device", bytes));
  const cudaError_t cleared = cudaMemsetAsync(memory, 0, rounded(bytes), cudaStreamPerThread);
  const cudaError_t waited = cudaStreamSynchronize(cudaStreamPerThread);
  if (cleared != cudaSuccess || waited != cudaSuccess) {
    free_device(static_cast<std::byte*>(memory));
    context_->require(cleared != cudaSuccess ? cleared : waited, "device memory can't be cleared");
  }
  return static_cast<std::byte*>(memory);
}

void cuda_device::free_device(std::byte* memory) noexcept {
  context_->enter_regardless();
  static_cast<void>(context_->leave(cudaFree(memory)));
}

std::unique_ptr<exported_memory> cuda_device::take_exported(std::size_t bytes) {
  context_->enter_or_throw();
  if (!exporter_) {
    throw device_error("the driver of this GPU exports no memory to other processes");
  }
  std::unique_ptr<exported_memory> memory = exporter_->make(bytes);
  context_->require(cudaMemsetAsync(memory->data(), 0, memory->bytes(), cudaStreamPerThread),
                    "device memory can't be cleared");
  context_->require(cudaStreamSynchronize(cudaStreamPerThread), "device memory can't be cleared");
  return memory;
}

void cuda_device::pin(std::byte* memory, std::size_t bytes) {
  context_->enter_or_throw();
  context_->require(cudaHostRegister(memory, bytes, cudaHostRegisterPortable),
                    "memory of " + std::to_string(bytes) + " bytes can't be pinned");
}

void cuda_device::unpin(std::byte* memory) noexcept {
  context_->enter_regardless();
  static_cast<void>(context_->leave(cudaHostUnregister(memory)));
}

std::unique_ptr<stream> cuda_device::open_stream(stream_priority priority) {
  int number = lowest_priority_;
  switch (priority) {
    case stream_priority::low:
      break;
    case stream_priority::normal:
      number = (lowest_priority_ + highest_priority_) / 2;
      break;
    case stream_priority::high:
      number = highest_priority_;
      break;
  }
  return std::make_unique<cuda_stream>(context_, number);
}

std::unique_ptr<stream> cuda_device::open_blocking_stream() {
  return std::make_unique<blocking_stream>(context_);
}

std::unique_ptr<event> cuda_device::open_event(bool timed) {
  return std::make_unique<cuda_event>(*context_, timed);
}

std::unique_ptr<operation> cuda_device::compile(std::string_view name, const operation_request& request) {
  const make_operation make = find_cuda_operation(name);
  if (make == nullptr) {
    throw device_error("there is no operator '" + std::string(name) + "' for the CUDA backend");
  }
  context_->enter_or_throw();
  return make_for_device(make, request);
}

fault cuda_device::health() noexcept {
  if (!context_->enter()) {
    static_cast<void>(context_->leave(cudaPeekAtLastError()));
    static_cast<void>(context_->leave(cudaEventQuery(probe_->get())));
  }
  return context_->failure();
}

}  // namespace penstock
