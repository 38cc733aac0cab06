#pragma once

#include <utility>

#include "daemon/device/cuda/cuda_context.hpp"

namespace penstock {

/// Owns a CUDA stream that never synchronizes with the default stream. Empty only when moved from.
class stream_handle {
 public:
  /// `priority` is CUDA's: a lower number goes first. Throws device_error.
  stream_handle(cuda_context& context, int priority) : context_(&context) {
    context.enter_or_throw();
    context.require(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking, priority), "no CUDA stream");
  }
  stream_handle(stream_handle&& other) noexcept
      : context_(other.context_), handle_(std::exchange(other.handle_, nullptr)) {}
  stream_handle& operator=(stream_handle&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~stream_handle() {
    if (handle_ != nullptr) {
      context_->enter_regardless();
      static_cast<void>(context_->leave(cudaStreamDestroy(handle_)));
    }
  }

  [[nodiscard]] cudaStream_t get() const noexcept { return handle_; }

 private:
  cuda_context* context_;
  cudaStream_t handle_ = nullptr;
};

}  // namespace penstock
