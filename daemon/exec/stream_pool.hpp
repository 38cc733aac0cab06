#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/batch/batch_builder.hpp"
#include "daemon/batch/slot_ring.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/device/device.hpp"
#include "daemon/exec/batch_launch.hpp"
#include "daemon/exec/session_state.hpp"
#include "daemon/pipeline/plan.hpp"

namespace penstock {

/// A pipeline's first launch failed.
class launch_error : public device_error {
 public:
  launch_error(std::string pipeline_name, const std::string& message)
      : device_error(message), pipeline(std::move(pipeline_name)) {}

  std::string pipeline;
};

/// The largest batch of a plan that runs inline, in steps (frames × leading extent). The warm-up measures it; it is
/// lower for a while after a batch took too long. Thread: the shard.
class inline_limit {
 public:
  explicit inline_limit(std::int64_t measured = 0) noexcept : measured_(measured), allowed_(measured) {}

  /// Whether a batch of this many steps runs inline. Call it once for each launch.
  [[nodiscard]] bool holds(std::int64_t steps) noexcept {
    if (allowed_ < measured_ && ++launches_ == launches_to_try_more) {
      launches_ = 0;
      allowed_ = std::clamp(2 * allowed_, std::int64_t{1}, measured_);
    }
    return steps <= allowed_;
  }
  /// A batch that ran inline took too long.
  void failed(std::int64_t steps) noexcept {
    launches_ = 0;
    allowed_ = std::min(allowed_, steps / 2);
  }

 private:
  static constexpr std::uint32_t launches_to_try_more = 1024;

  std::int64_t measured_;
  std::int64_t allowed_;
  std::uint32_t launches_ = 0;  // since `allowed_` changed
};

/// Opens the streams of a class: `count` of them, or one that blocks. Throws device_error.
[[nodiscard]] std::vector<std::unique_ptr<stream>> open_streams(device& device, const stream_class& wanted, int count);

/// The streams of a shard. It enqueues batches and never waits. Thread: the shard.
///
/// Each class of streams that a pipeline asks for (plan::streams) gets its own: as many as the settings say, or one
/// that blocks. A batch begins and completes on its home stream; the other lanes of its plan go to the least busy
/// streams of its class. A wait is always for an event that was enqueued earlier, so streams never wait for each other
/// in a circle.
///
/// `completion_mode::automatic` polls for the end of short batches, if the device reports events sooner than callbacks.
/// For longer batches the delay of a callback does not matter.
///
/// If the device states how many batches it runs at once (device_facts::at_once), the batches of a class on it are
/// at most twice as many: a batch in the device's own queue can no longer be overtaken.
class stream_pool {
 public:
  /// Batches that a stream may be home to: one runs and one is queued, so that the stream never runs dry. Only one if
  /// batches take longer than `long_batch`: then the gap between two is negligible, and batches that are not queued yet
  /// can still be put in a fair order.
  static constexpr std::uint32_t depth = 2;
  static constexpr std::chrono::milliseconds long_batch{1};
  static constexpr std::chrono::microseconds short_batch{250};

  /// Opens the streams of each class. A completed batch is pushed to its slot's completion queue, by the
  /// device's callback or by `poll`. Throws device_error.
  stream_pool(device& device, int streams, std::span<const stream_class> classes, completion_mode mode,
              const state_pool& states);

  /// Waits for everything that is enqueued, and closes the streams.
  void close() noexcept { streams_.clear(); }
  /// Adds streams of a class that had none.
  void add(const stream_class& added, std::vector<std::unique_ptr<stream>> streams);
  /// The room for batches on streams of a class that there is. `alone`: the device has no batch of the asking pipeline.
  /// Then a stream that can queue a batch counts as idle, while batches take at most `short_batch`: waiting would
  /// hardly make the batch larger, and costs a wake-up.
  [[nodiscard]] stream_room room(const stream_class& wanted, bool alone = false) const noexcept;
  /// True if batches longer than `short_batch` occupy half of the device's concurrency on streams of that class.
  [[nodiscard]] bool half_taken(const stream_class& wanted) const noexcept;
  /// Enqueues the slot's batch on the least busy streams; one must have room. A brief batch may be done on return;
  /// `inline_time` is then the time it took. After a fault a part of the batch may be enqueued, so the slot stays with
  /// the device: call `fence`.
  [[nodiscard]] launch_fault launch(slot& filled, time_point now) noexcept;
  /// Enqueues the completion of a refused batch behind everything that was enqueued of it. Call again after a fault.
  [[nodiscard]] fault fence(slot& refused) noexcept;
  /// The duration of the last launch if its batch ran inline, else 0.
  [[nodiscard]] std::chrono::nanoseconds inline_time() const noexcept { return inline_time_; }
  /// Pushes every polled batch that is done to its completion queue. Returns whether there was one.
  bool poll() noexcept;
  /// The error of an event query that the device refused in `poll`. Returns it once.
  [[nodiscard]] fault take_refusal() noexcept { return std::exchange(refusal_, {}); }
  /// As device::health.
  [[nodiscard]] fault health() const noexcept { return device_.health(); }
  /// Whether `poll` must be called to see the end of a batch. The shard must not sleep then.
  [[nodiscard]] bool polling() const noexcept { return polled_ != 0; }
  /// The shard has taken the slot's completion: its streams have room again.
  void retire(slot& completed, time_point now) noexcept;

  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
  /// Since the start.
  [[nodiscard]] const copied_bytes& copied() const noexcept { return copied_; }
  /// Minimum payload size for zero-copy in that plan (device_facts).
  [[nodiscard]] std::size_t in_place_bytes(const plan& pipeline) const noexcept {
    return pipeline.single_pass ? single_pass_in_place_bytes_ : in_place_bytes_;
  }
  [[nodiscard]] std::size_t streams() const noexcept { return streams_.size(); }
  /// Runs a plan in the slot, and waits, before the plan is served: on the first stream of its class in every batch
  /// size for which an operator may have its own kernel, on each other stream in the largest; a blocking plan in the
  /// largest alone. Returns the largest batch that ran within device_facts::inline_limit, in steps. Throws
  /// launch_error.
  std::int64_t warm_up(const plan& pipeline, slot& slot);
  /// Batches of up to `steps` of the plan with that plan::place run inside `launch`.
  void set_inline_steps(std::uint32_t place, std::int64_t steps);

 private:
  struct stream_record {
    std::unique_ptr<stream> queue;
    std::uint32_t homes = 0;  // batches that complete here
    std::uint32_t work = 0;   // lanes of batches that run here
    time_point last_done{};
    slot* polled[depth] = {};  // in the order of their launches
  };
  // The streams of one class: streams_[first] to streams_[first + count - 1].
  struct stream_group {
    stream_class streams;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint32_t turn = 0;
    std::size_t batches = 0;          // in flight
    std::chrono::nanoseconds span{};  // of a batch on its stream: a running mean

    [[nodiscard]] std::uint32_t depth() const noexcept { return span > long_batch ? 1 : stream_pool::depth; }
  };

  [[nodiscard]] std::size_t group_of(const stream_class& wanted) const noexcept;
  /// Batches that run at once on its streams.
  [[nodiscard]] std::size_t at_once_on(const stream_group& group) const noexcept {
    return group.streams.blocks ? group.count : at_once_;
  }
  [[nodiscard]] bool polls(const stream_group& group) const noexcept;
  void choose_streams(slot& filled) noexcept;
  [[nodiscard]] bool is_brief(const batch& work) noexcept;
  [[nodiscard]] launch_fault enqueue_work(slot& slot) noexcept;
  [[nodiscard]] launch_fault enqueue_batch(slot& slot) noexcept;
  [[nodiscard]] fault enqueue_end(slot& slot) noexcept;
  [[nodiscard]] launch_fault run_inline(slot& slot) noexcept;
  void run_once(slot& slot);
  [[nodiscard]] bool runs_within(std::chrono::nanoseconds limit, slot& slot);
  void set_inline(const slot& work, bool brief) noexcept;

  device& device_;
  completion_mode mode_;
  std::size_t direct_bytes_;
  std::size_t single_pass_bytes_;
  std::size_t in_place_bytes_;
  std::size_t single_pass_in_place_bytes_;
  bool events_come_first_;
  std::chrono::nanoseconds inline_limit_;
  std::size_t at_once_;  // batches of one class that the device runs at once
  const state_pool& states_;
  std::vector<stream_record> streams_;
  std::vector<stream_group> groups_;
  std::vector<inline_limit> inline_limits_;  // by plan::place
  std::chrono::nanoseconds inline_time_{};
  std::vector<stream*> lanes_;  // of the batch that is being enqueued
  copy_list pieces_;            // likewise
  copied_bytes copied_;
  std::size_t in_flight_ = 0;
  std::size_t polled_ = 0;
  std::uint64_t launches_ = 0;
  fault refusal_;  // seen by `poll`
};

}  // namespace penstock
