#pragma once

#include <string>

#include <cuda_runtime_api.h>

#include "daemon/device/device.hpp"

namespace penstock {

/// Every CUDA call of a device stands between `enter`, which makes the device current, and `leave`, which judges the
/// call's error. A thread's current device is remembered, so that only its first call, or a change between devices,
/// costs a cudaSetDevice; nothing else in the process chooses a device. Threads: any.
class cuda_context {
 public:
  /// Reads the name of every CUDA error once, so that a stream callback, which may make no CUDA call, has them. Called
  /// when a device is opened.
  static void learn_fault_names();

  explicit cuda_context(int device) noexcept : device_(device) {}
  cuda_context(const cuda_context&) = delete;
  cuda_context& operator=(const cuda_context&) = delete;

  /// Makes the device current; on a device that has failed it returns the fault and makes no call.
  fault enter() noexcept;
  /// Makes the device current even if it has failed: for what gives something back.
  void enter_regardless() noexcept;
  /// The call's outcome as a fault, whose name is CUDA's. A sticky error, after which every later call fails too, is
  /// kept for the device; another is cleared from the thread, so that no later call reports it as its own.
  fault leave(cudaError_t error) noexcept;
  /// The same in a stream callback: it makes no CUDA call, hence clears nothing.
  fault leave_callback(cudaError_t error) noexcept;

  /// For creation: as `enter` and `leave`, but throws device_error "CONSEQUENCE: NAME (description)".
  void enter_or_throw();
  void require(cudaError_t error, const std::string& consequence);

  [[nodiscard]] fault failure() const noexcept { return sticky_.get(); }

 private:
  const int device_;
  sticky_fault sticky_;
};

}  // namespace penstock
