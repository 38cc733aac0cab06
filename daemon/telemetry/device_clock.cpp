#include "daemon/telemetry/device_clock.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace penstock {

clock_pool::clock_pool(device& device, std::span<const plan> plans, std::size_t clocks) {
  for (const plan& each : plans) {
    steps_ = std::max(steps_, each.order.steps.size());
  }
  for (std::size_t made = 0; made < clocks; ++made) {
    free_.push_back(clocks_.emplace_back(std::make_unique<batch_clock>(device, steps_)).get());
  }
}

batch_clock* clock_pool::claim() noexcept {
  if (free_.empty()) {
    return nullptr;
  }
  batch_clock* const taken = free_.back();
  free_.pop_back();
  return taken;
}

namespace {

constexpr std::chrono::seconds renewal{1};
constexpr int looks_at_once = 50;
// A stream's first work may take its time, and a busy machine keeps whoever waits from seeing its end.
constexpr int rounds_at_first = 8;

std::chrono::nanoseconds from_us(double us) noexcept {
  return std::chrono::nanoseconds{static_cast<std::int64_t>(us * 1000.0)};
}

}  // namespace

device_clock::device_clock(device& device, time_source now) : now_(std::move(now)) {
  for (anchor& each : anchors_) {
    each.point = device.open_event(true);
  }
  stream_ = device.open_stream(stream_priority::high);
  auto shortest = std::chrono::nanoseconds::max();
  for (int round = 0; round < rounds_at_first; ++round) {
    anchor& next = anchors_[1 - current_];
    next.recorded = now_();
    fault failed = stream_->record(*next.point);
    failed = failed ? failed : stream_->synchronize();
    if (failed) {
      throw device_error(std::string("the device's clock can't be read: ") + failed.name);
    }
    const std::chrono::nanoseconds waited = now_() - next.recorded;
    if (waited < shortest) {
      shortest = waited;
      next.reached = next.recorded + waited / 2;
      current_ = 1 - current_;
    }
  }
  renew_at_ = anchors_[current_].reached + renewal;
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
    // After a fault the last anchor stays, until the next one is due.
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
  const anchor& start = anchors_[held];
  const double elapsed = point.elapsed_us(*start.point);
  return elapsed < 0 ? std::nullopt : std::optional(start.reached + from_us(elapsed));
}

}  // namespace penstock
