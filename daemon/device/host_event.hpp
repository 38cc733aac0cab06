#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/device/device.hpp"
#include "daemon/device/host_command.hpp"
#include "daemon/device/sticky_fault.hpp"

namespace penstock {

/// A position in a host queue. Recording it again moves it; who waits already goes on waiting for the old position.
///
/// A timed one is to be recorded again only once it is reached: until then its time may be of the record before.
class host_event final : public event {
 public:
  /// `stamp` is where the workers store the time of a timed event, nullptr for one that is not; the device owns it.
  host_event(const sticky_fault& health, std::atomic<std::int64_t>* stamp) noexcept;

  /// Once the device has failed every event is `failed`, as on CUDA.
  state query(fault& why) noexcept override;
  [[nodiscard]] double elapsed_us(const event& earlier) const noexcept override;

  void move_to(const host_wait& point) noexcept { point_ = point; }
  /// Without a queue when it was never recorded.
  [[nodiscard]] const host_wait& point() const noexcept { return point_; }
  [[nodiscard]] std::atomic<std::int64_t>* stamp() const noexcept { return stamp_; }

 private:
  [[nodiscard]] bool reached() const noexcept;

  const sticky_fault& health_;
  std::atomic<std::int64_t>* stamp_;
  host_wait point_;
};

}  // namespace penstock
