#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/device/device.hpp"
#include "daemon/request/request.hpp"

namespace penstock {

/// What time it is; passed in, so that tests can set it.
using time_source = std::function<time_point()>;

/// The host's time of what happens on a device. Thread: the shard.
///
/// An anchor is a timed event whose host time is known; the times of other events are measured from it. There are two,
/// in turn: while one is renewed, on a stream of its own, the other stays in use. They are renewed about every second,
/// because the two clocks drift apart and a device counts long times coarsely (CUDA: a float of milliseconds). After
/// that the device is asked some 50 times whether it got there, which it mostly does within microseconds, and else
/// again at each turn. An anchor's host time is what the anchor before it predicts, kept between the moment before it
/// was recorded and the moment after it was seen reached: no anchor can be off by more than these two are apart. The
/// first is the one of several for which they are least apart, and its host time is the middle.
class device_clock {
 public:
  /// Opens the stream and waits for the first anchor: start-up only. Throws device_error.
  device_clock(device& on, time_source now);

  /// Once a turn of the shard. Never blocks.
  void turn(time_point now) noexcept;
  /// The anchor for a batch that is launched now. It is not renewed until it is released.
  [[nodiscard]] std::uint32_t hold() noexcept;
  void release(std::uint32_t held) noexcept { --anchors_[held].holders; }
  /// When `point` was reached; it was recorded after the anchor was held. nullopt when the device can't tell.
  [[nodiscard]] std::optional<time_point> time_of(const event& point, std::uint32_t held) const noexcept;

 private:
  struct anchor {
    std::unique_ptr<event> point;
    time_point recorded;  // just before its record was enqueued
    time_point reached;   // by the host's clock, as well as is known
    std::uint32_t holders = 0;
  };

  void record_next(time_point now) noexcept;
  void look_at_next() noexcept;

  time_source now_;
  std::array<anchor, 2> anchors_;
  std::unique_ptr<stream> stream_;  // after the events that it records
  std::uint32_t current_ = 0;
  bool pending_ = false;  // the other anchor is recorded and was not seen reached
  time_point renew_at_;
};

}  // namespace penstock
