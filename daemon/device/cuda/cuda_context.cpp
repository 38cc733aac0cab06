#include "daemon/device/cuda/cuda_context.hpp"

#include <array>
#include <cstddef>

namespace penstock {
namespace {

struct name_table {
  std::array<const char*, cudaErrorUnknown + 1> names{};

  name_table() {
    for (std::size_t code = 1; code < names.size(); ++code) {
      names[code] = cudaGetErrorName(static_cast<cudaError_t>(code));
    }
  }
};

const name_table& error_names() noexcept {
  static const name_table table;
  return table;
}

fault fault_of(cudaError_t error) noexcept {
  if (error == cudaSuccess) {
    return {};
  }
  const auto code = static_cast<std::size_t>(error);
  const auto& names = error_names().names;
  return {code < names.size() ? names[code] : names[cudaErrorUnknown]};
}

bool is_sticky(cudaError_t error) noexcept {
  switch (error) {
    case cudaErrorCudartUnloading:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

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

void cuda_context::learn_fault_names() {
  static_cast<void>(error_names());
}

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

void cuda_context::require(cudaError_t error, const std::string& consequence) {
  if (fault met = leave(error)) {
    throw device_error(consequence + ": " + met.name + " (" + cudaGetErrorString(error) + ")");
  }
}

}  // namespace penstock
