#pragma once

#include <string>

#include <cuda_runtime_api.h>

#include "daemon/device/sticky_fault.hpp"

namespace penstock {

/// What each CUDA call of a device passes through: the device is made current before it, its error is judged after it.
///
/// Which device a thread has current is remembered for each thread, so that only a thread's first call, or a change
/// between devices, costs a cudaSetDevice. That holds because nothing else in the process chooses a device.
/// Any thread may call.
class cuda_context {
 public:
  explicit cuda_context(int device) noexcept : device_(device) {}
  cuda_context(const cuda_context&) = delete;
  cuda_context& operator=(const cuda_context&) = delete;

  /// Makes the device current; on a device that has failed it returns the fault and makes no call.
  fault enter() noexcept;
  /// Makes the device current even if it has failed: for what gives something back.
  void enter_regardless() noexcept;
  /// The call's outcome as a fault. A sticky error is kept for the device; another is cleared from the thread, so that
  /// no later call reports it as its own.
  fault leave(cudaError_t error) noexcept;
  /// The same in a stream callback: it makes no CUDA call, hence clears nothing.
  fault leave_callback(cudaError_t error) noexcept;

  /// For creation: throws device_error "WHAT: NAME (description)" if either call failed.
  void enter_or_throw();
  void require(cudaError_t error, const std::string& what);

  [[nodiscard]] fault failure() const noexcept { return sticky_.get(); }

 private:
  const int device_;
  sticky_fault sticky_;
};

}  // namespace penstock
