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
  const auto& start = static_cast<const cuda_event&>(earlier);
  // Asked first, so that CUDA is never given what it would report as an error.
  if (!timed_ || !start.timed_ || !start.is_reached() || !is_reached()) {
    return -1;
  }
  float milliseconds = 0;
  if (context_.leave(cudaEventElapsedTime(&milliseconds, start.get(), get()))) {
    return -1;
  }
  return static_cast<double>(milliseconds) * 1000.0;
}

bool cuda_event::is_reached() const noexcept {
  if (!recorded_ || context_.enter()) {
    return false;
  }
  const cudaError_t error = cudaEventQuery(handle_.get());
  static_cast<void>(context_.leave(error));
  return error == cudaSuccess;
}

}  // namespace penstock
