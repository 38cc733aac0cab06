#pragma once

#include <utility>

#include "daemon/device/cuda/cuda_context.hpp"

namespace penstock {

/// Owns a CUDA event, which keeps times only if it is asked to. Empty only when moved from.
class event_handle {
 public:
  /// Throws device_error.
  event_handle(cuda_context& context, bool timed) : context_(&context) {
    context.enter_or_throw();
    context.require(cudaEventCreateWithFlags(&handle_, timed ? cudaEventDefault : cudaEventDisableTiming),
                    "no CUDA event");
  }
  event_handle(event_handle&& other) noexcept
      : context_(other.context_), handle_(std::exchange(other.handle_, nullptr)) {}
  event_handle& operator=(event_handle&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~event_handle() {
    if (handle_ != nullptr) {
      context_->enter_regardless();
      static_cast<void>(context_->leave(cudaEventDestroy(handle_)));
    }
  }

  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }

 private:
  cuda_context* context_;
  cudaEvent_t handle_ = nullptr;
};

}  // namespace penstock
