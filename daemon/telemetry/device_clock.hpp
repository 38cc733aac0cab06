#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/batch/slot_ring.hpp"
#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/request.hpp"

namespace penstock {

/// Clocks for the batches that are timed, all made at start-up. Each has events for the largest plan, and for larger
/// ones of a later configuration. They must outlive the streams that record them. Thread: the shard.
class clock_pool {
 public:
  /// Throws device_error.
  clock_pool(device& device, std::span<const plan> plans, std::size_t clocks);

  /// nullptr when all are in use.
  [[nodiscard]] batch_clock* claim() noexcept;
  void give_back(batch_clock& unused) noexcept { free_.push_back(&unused); }

  [[nodiscard]] std::size_t size() const noexcept { return clocks_.size(); }
  /// Batches with more steps can't be timed.
  [[nodiscard]] std::size_t steps() const noexcept { return steps_; }

 private:
  static constexpr std::size_t least_steps = 32;

  std::size_t steps_ = least_steps;
  std::vector<std::unique_ptr<batch_clock>> clocks_;
  std::vector<batch_clock*> free_;
};

/// Tells the time; passed in, so that tests can set it.
using time_source = std::function<time_point()>;

/// The host's time of what happens on a device. Thread: the shard.
///
/// An anchor is a timed event whose host time is known; the times of other events are measured from it. There are two:
/// while one is renewed, on a stream of its own, the other stays in use. They are renewed about every second, because
/// the two clocks drift apart and a device counts long times coarsely (CUDA: a float of milliseconds). A renewed anchor
/// is queried up to 50 times at once, which is mostly enough, and else once a turn.
///
/// An anchor's host time is what the anchor before it predicts, clamped between the moment before it was recorded and
/// the moment after it was seen reached, so that its error is at most the distance of these two. The first anchor is
/// the one of several tries with the shortest distance; its host time is the middle.
class device_clock {
 public:
  /// Opens the stream and waits for the first anchor: start-up only. Throws device_error.
  device_clock(device& device, time_source now);

  /// Once a turn of the shard. Never blocks.
  void turn(time_point now) noexcept;
  /// The anchor for a batch that is launched now; it is not renewed before its `release`.
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
