#include "daemon/device/cuda/cuda_context.hpp"

#include "daemon/device/cuda/cuda_fault.hpp"
#include "daemon/device/device.hpp"

namespace penstock {
namespace {

// The device that cudaSetDevice made current on this thread; -1 before the first.
thread_local int current_device = -1;

cudaError_t make_current(int device) noexcept {
  if (current_device == device) {
    return cudaSuccess;
  }
  const cudaError_t error = cudaSetDevice(device);
  current_device = error == cudaSuccess ? device : -1;
  return error;
}

}  // namespace

fault cuda_context::enter() noexcept {
  if (fault failed = sticky_.get()) {
    return failed;
  }
  return leave(make_current(device_));
}

void cuda_context::enter_regardless() noexcept {
  static_cast<void>(leave(make_current(device_)));
}

fault cuda_context::leave(cudaError_t error) noexcept {
  if (error == cudaSuccess) {
    return {};
  }
  if (!is_sticky(error)) {
    static_cast<void>(cudaGetLastError());
  }
  return leave_callback(error);
}

fault cuda_context::leave_callback(cudaError_t error) noexcept {
  const fault met = fault_of(error);
  if (met && is_sticky(error)) {
    sticky_.set(met);
  }
  return met;
}

void cuda_context::enter_or_throw() {
  if (fault failed = sticky_.get()) {
    throw device_error(std::string("the CUDA device has failed: ") + failed.name);
  }
  require(make_current(device_), "CUDA device " + std::to_string(device_) + " can't be used");
}

void cuda_context::require(cudaError_t error, const std::string& what) {
  if (fault met = leave(error)) {
    throw device_error(what + ": " + met.name + " (" + cudaGetErrorString(error) + ")");
  }
}

}  // namespace penstock
