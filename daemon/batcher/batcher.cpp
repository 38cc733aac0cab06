#include "daemon/batcher/batcher.hpp"

namespace penstock {

std::optional<close_reason> decide(const batch_fill& fill, wheel_room room, time_point now) noexcept {
  if (fill.frames == 0) {
    return std::nullopt;
  }
  if (fill.frames >= fill.max_frames) {
    return close_reason::full;
  }
  if (room == wheel_room::idle) {
    return close_reason::idle;
  }
  if (room == wheel_room::some && now >= next_decision(fill)) {
    return close_reason::delay;
  }
  return std::nullopt;
}

time_point next_decision(const batch_fill& fill) noexcept {
  return fill.frames == 0 ? never : fill.oldest + fill.max_delay;
}

}  // namespace penstock
