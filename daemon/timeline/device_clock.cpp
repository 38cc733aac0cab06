#include "daemon/timeline/device_clock.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace penstock {
namespace {

constexpr std::chrono::seconds renewal{1};
constexpr int looks_at_once = 50;

std::chrono::nanoseconds from_us(double us) noexcept {
  return std::chrono::nanoseconds{static_cast<std::int64_t>(us * 1000.0)};
}

}  // namespace

device_clock::device_clock(device& on, time_source now) : now_(std::move(now)) {
  for (anchor& each : anchors_) {
    each.point = on.open_event(true);
  }
  stream_ = on.open_stream(stream_priority::high);
  anchor& first = anchors_[current_];
  // Twice: a stream's first work may take its time.
  for (int round = 0; round < 2; ++round) {
    first.recorded = now_();
    fault failed = stream_->record(*first.point);
    failed = failed ? failed : stream_->synchronize();
    if (failed) {
      throw device_error(std::string("the device's clock can't be read: ") + failed.name);
    }
    first.reached = first.recorded + (now_() - first.recorded) / 2;
  }
  renew_at_ = first.reached + renewal;
}

void device_clock::turn(time_point now) noexcept {
  if (pending_) {
    look_at_next();
  } else if (now >= renew_at_ && anchors_[1 - current_].holders == 0) {
    record_next(now);
  }
}

void device_clock::record_next(time_point now) noexcept {
  anchor& next = anchors_[1 - current_];
  next.recorded = now_();
  pending_ = !stream_->record(*next.point);
  renew_at_ = now + renewal;
  for (int looks = 0; pending_ && looks < looks_at_once; ++looks) {
    look_at_next();
  }
}

void device_clock::look_at_next() noexcept {
  anchor& next = anchors_[1 - current_];
  fault why;
  const event::state state = next.point->query(why);
  if (state != event::state::reached) {
    // After a fault the last anchor stays; nothing will be launched any more.
    pending_ = state == event::state::pending;
    return;
  }
  const time_point seen = now_();
  const time_point predicted = time_of(*next.point, current_).value_or(next.recorded);
  next.reached = std::clamp(predicted, next.recorded, std::max(next.recorded, seen));
  current_ = 1 - current_;
  pending_ = false;
}

std::uint32_t device_clock::hold() noexcept {
  ++anchors_[current_].holders;
  return current_;
}

std::optional<time_point> device_clock::time_of(const event& point, std::uint32_t held) const noexcept {
  const anchor& from = anchors_[held];
  const double elapsed = point.elapsed_us(*from.point);
  return elapsed < 0 ? std::nullopt : std::optional(from.reached + from_us(elapsed));
}

}  // namespace penstock
