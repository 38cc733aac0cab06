#pragma once

#include "daemon/device/cuda/cuda_context.hpp"
#include "daemon/device/cuda/event_handle.hpp"
#include "daemon/device/device.hpp"

namespace penstock {

/// An event of the CUDA device. It keeps a time, which makes recording it dearer, only if it was opened as timed.
class cuda_event final : public event {
 public:
  cuda_event(cuda_context& context, bool timed) : context_(context), handle_(context, timed), timed_(timed) {}

  state query(fault& why) noexcept override;
  [[nodiscard]] double elapsed_us(const event& earlier) const noexcept override;

  [[nodiscard]] cudaEvent_t get() const noexcept { return handle_.get(); }
  /// A stream has recorded it, for the first time or again.
  void mark_recorded() noexcept { recorded_ = true; }

 private:
  cuda_context& context_;
  event_handle handle_;
  bool timed_;
  bool recorded_ = false;
};

}  // namespace penstock
