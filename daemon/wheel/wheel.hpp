#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/ring/state_pool.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/wheel/batch_work.hpp"
#include "daemon/wheel/briefness.hpp"

namespace penstock {

/// The streams of a shard, used in rotation. It enqueues and never waits. Thread: the shard.
///
/// Each priority that a pipeline has gets streams of its own. A batch has a home stream, where it begins and completes;
/// the further lanes of its plan go to other streams of its priority, the least busy first. Events stand between them,
/// and every wait is for something enqueued before it, so that streams can never wait for each other in a circle.
///
/// With `completion_mode::automatic` it polls for batches that are expected to be short, on a device where that is
/// quicker: beside a long one the callback's own time is nothing, and nobody should spin for it.
///
/// Where the device says how many batches it works on at once, the wheel gives it no more than twice as many: what
/// stands in line there can't be overtaken any more.
class wheel {
 public:
  /// How many batches a stream may be home to: one that it runs, one behind it, so that the device never runs dry.
  /// Where batches take longer than `long_batch`, the gap between two is nothing beside them, and only the first is let
  /// in: what comes meanwhile can still be ordered fairly.
  static constexpr std::uint32_t depth = 2;
  static constexpr std::chrono::milliseconds long_batch{1};
  static constexpr std::chrono::microseconds short_batch{250};

  /// `streams` of each of these priorities. Throws device_error. Batches that are done go to their slot's completion
  /// queue: pushed by the device's callback or, when polled, by `poll`.
  wheel(device& on, int streams, std::span<const stream_priority> priorities, completion_mode mode,
        const state_pool& states);

  /// Waits for all that the streams still have, and closes them: nothing is launched any more.
  void close() noexcept { spokes_.clear(); }
  /// Streams for a priority that there was none of.
  void add(stream_priority priority, std::vector<std::unique_ptr<stream>> streams);
  /// For batches of that priority, which must be one that there are streams for. `alone`: of a pipeline that the device
  /// has none of. While batches take less than `short_batch`, that one need not wait for the others':
  /// waiting would not make it much larger, and costs a wake-up for each.
  [[nodiscard]] wheel_room room(stream_priority priority, bool alone = false) const noexcept;
  /// Whether batches of that priority that are not short take half of what the device works on at once already. Each
  /// further one makes all of them take longer, whoever they belong to.
  [[nodiscard]] bool half_taken(stream_priority priority) const noexcept;
  /// Enqueues the slot's batch on the next stream that is free: copy in, the stages, copies out, the completion. A
  /// brief one may be done when this returns; then `inline_time` has passed. There must be room. After a fault the slot
  /// is still in the device's hands: other work of the batch may be queued, and `fence` has to follow.
  [[nodiscard]] launch_fault launch(slot& filled, time_point now) noexcept;
  /// For a batch whose launch was refused: its completion comes behind whatever of it was enqueued, on any of its
  /// streams. After a fault it is to be called again.
  [[nodiscard]] fault fence(slot& refused) noexcept;
  /// How long the last launch took where the batch was brief; else 0.
  [[nodiscard]] std::chrono::nanoseconds inline_time() const noexcept { return inline_time_; }
  /// Pushes every polled batch that has finished. Returns whether there was one.
  bool poll() noexcept;
  /// What the device answered when `poll` asked and it did not say; none where it did. Once.
  [[nodiscard]] fault take_refusal() noexcept { return std::exchange(refusal_, {}); }
  /// The device's (device::health).
  [[nodiscard]] fault health() const noexcept { return device_.health(); }
  /// Whether there are batches whose end is seen by `poll` alone: the shard must not sleep.
  [[nodiscard]] bool polling() const noexcept { return polled_ != 0; }
  /// The shard has seen the slot's completion, now: its streams have room again.
  void retire(slot& completed, time_point now) noexcept;

  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
  /// From how many bytes on a payload for that plan need not be copied (device_facts).
  [[nodiscard]] std::size_t in_place_bytes(const plan& of) const noexcept {
    return of.single_pass ? single_pass_in_place_bytes_ : in_place_bytes_;
  }
  [[nodiscard]] std::size_t streams() const noexcept { return spokes_.size(); }
  /// Before the plan is served, at the start or for a reload: runs it on the first stream of its priority in every
  /// batch size that may need a kernel of its own, and on each of the others in the largest. Waits for it. Returns how
  /// many steps (frames times their leading extent) a batch may have to be brief, as measured: device_facts'
  /// inline_limit. Throws device_error with what failed.
  std::int64_t warm_up(const plan& what, slot& on);
  /// Batches of the plan with that place are brief up to so many steps: the device may run them within `launch`.
  void set_brief(std::uint32_t place, std::int64_t steps);

 private:
  struct spoke {
    std::unique_ptr<stream> queue;
    std::uint32_t homes = 0;  // batches that complete here
    std::uint32_t work = 0;   // lanes of batches that run here
    time_point last_done{};
    slot* polled[depth] = {};  // in the order of their launches
  };
  // The streams of one priority: spokes_[first … first + count − 1].
  struct group {
    stream_priority priority{};
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint32_t turn = 0;
    std::size_t batches = 0;          // in flight
    std::chrono::nanoseconds span{};  // that a batch takes on its stream: a running mean

    [[nodiscard]] std::uint32_t depth() const noexcept { return span > long_batch ? 1 : wheel::depth; }
  };

  [[nodiscard]] std::size_t group_of(stream_priority priority) const noexcept;
  [[nodiscard]] bool polls(const group& of) const noexcept;
  void choose_streams(slot& filled) noexcept;
  [[nodiscard]] bool brief(const batch& work) noexcept;
  [[nodiscard]] launch_fault enqueue_work(slot& with) noexcept;
  [[nodiscard]] launch_fault enqueue_batch(slot& with) noexcept;
  [[nodiscard]] fault enqueue_end(slot& with) noexcept;
  [[nodiscard]] launch_fault run_brief(slot& with) noexcept;
  void run_once(slot& on);
  [[nodiscard]] bool runs_within(std::chrono::nanoseconds limit, slot& on);
  void let_run_inline(const slot& work, bool brief) noexcept;

  device& device_;
  completion_mode mode_;
  std::size_t direct_bytes_;
  std::size_t single_pass_bytes_;
  std::size_t in_place_bytes_;
  std::size_t single_pass_in_place_bytes_;
  bool events_come_first_;
  std::chrono::nanoseconds inline_limit_;
  std::size_t at_once_;  // batches of one priority that the device works on
  const state_pool& states_;
  std::vector<spoke> spokes_;
  std::vector<group> groups_;
  std::vector<briefness> brief_;  // by the plan's place
  std::chrono::nanoseconds inline_time_{};
  std::vector<stream*> lanes_;  // of the batch that is being enqueued
  copy_list pieces_;            // the same
  std::size_t in_flight_ = 0;
  std::size_t polled_ = 0;
  std::uint64_t launches_ = 0;
  fault refusal_;  // of `poll`
};

}  // namespace penstock
