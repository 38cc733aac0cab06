#include "daemon/device/cuda/cuda_fault.hpp"

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

}  // namespace

void learn_fault_names() {
  static_cast<void>(error_names());
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

}  // namespace penstock
