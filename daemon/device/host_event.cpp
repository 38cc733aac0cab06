#include "daemon/device/host_event.hpp"

#include "daemon/device/host_queue.hpp"

namespace penstock {

host_event::host_event(const sticky_fault& health, std::atomic<std::int64_t>* stamp) noexcept
    : health_(health), stamp_(stamp) {}

bool host_event::reached() const noexcept {
  return point_.on == nullptr || point_.on->completed() >= point_.position;
}

event::state host_event::query(fault& why) noexcept {
  if (fault failed = health_.get()) {
    why = failed;
    return state::failed;
  }
  return reached() ? state::reached : state::pending;
}

double host_event::elapsed_us(const event& earlier) const noexcept {
  const auto& start = static_cast<const host_event&>(earlier);
  for (const host_event* each : {&start, this}) {
    if (each->stamp_ == nullptr || each->point_.on == nullptr || !each->reached() || health_.get()) {
      return -1;
    }
  }
  const std::int64_t spent = stamp_->load(std::memory_order_acquire) - start.stamp_->load(std::memory_order_acquire);
  return static_cast<double>(spent) / 1000.0;
}

}  // namespace penstock
