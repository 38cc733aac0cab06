#include "daemon/device/cuda/cuda_event.hpp"

namespace penstock {

event::state cuda_event::query(fault& why) noexcept {
  if (fault failed = context_.enter()) {
    why = failed;
    return state::failed;
  }
  const cudaError_t error = cudaEventQuery(handle_.get());
  const fault met = context_.leave(error);
  if (error == cudaErrorNotReady) {
    return state::pending;
  }
  if (met) {
    why = met;
    return state::failed;
  }
  return state::reached;
}

double cuda_event::elapsed_us(const event& earlier) const noexcept {
  float milliseconds = 0;
  if (context_.enter()) {
    return -1;
  }
  const auto& start = static_cast<const cuda_event&>(earlier);
  // It fails when either keeps no time, was never recorded or is not reached.
  if (context_.leave(cudaEventElapsedTime(&milliseconds, start.get(), get()))) {
    return -1;
  }
  return static_cast<double>(milliseconds) * 1000.0;
}

}  // namespace penstock
