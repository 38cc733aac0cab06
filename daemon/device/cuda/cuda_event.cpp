#include "daemon/device/cuda/cuda_event.hpp"

namespace penstock {

event::state cuda_event::query(fault& why) noexcept {
  if (fault failed = context_.enter()) {
    why = failed;
    return context_.failure() ? state::failed : state::refused;
  }
  const cudaError_t error = cudaEventQuery(handle_.get());
  const fault met = context_.leave(error);
  if (error == cudaErrorNotReady) {
    return state::pending;
  }
  if (met) {
    why = met;
    return context_.failure() ? state::failed : state::refused;
  }
  return state::reached;
}

double cuda_event::elapsed_us(const event& earlier) const noexcept {
  const auto& start = static_cast<const cuda_event&>(earlier);
  if (!timed_ || !start.timed_ || !recorded_ || !start.recorded_ || context_.enter()) {
    return -1;
  }
  // An event that is not reached yet makes this an error that `leave` takes off the thread.
  float milliseconds = 0;
  if (context_.leave(cudaEventElapsedTime(&milliseconds, start.get(), get()))) {
    return -1;
  }
  return static_cast<double>(milliseconds) * 1000.0;
}

}  // namespace penstock
