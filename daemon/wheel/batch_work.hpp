#pragma once

#include <cstddef>
#include <span>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/ring/ring.hpp"

namespace penstock {

/// A batch could not be enqueued: the device's error, and the stage that it came up at ("" for a copy or an event). It
/// may be of a stage before that one: see stream::launch.
struct launch_fault {
  fault what;
  const char* stage = "";
};

/// What a batch's work is enqueued with.
struct batch_means {
  std::span<stream* const> lanes;  ///< the streams, by lane
  copy_list& pieces;               ///< to work with; room for a piece a frame and one more
  std::byte* states;               ///< where the plan's pool begins, nullptr when it keeps no state
  std::size_t direct_bytes;        ///< of the plan on this device: see device_facts
};

/// The work of one batch on its way to the device: it enqueues the plan's schedule, the copy in, the stages and the
/// copies out, each on its lane, with the events and waits between them. It never waits itself. Thread: the shard.
class batch_work {
 public:
  /// What the slot holds (payloads, session frames, its streams' numbers) is complete.
  batch_work(slot& of, const batch_means& with) noexcept;

  /// After a fault some of it may be enqueued. Once it returns no fault, lane 0 is behind all of it.
  [[nodiscard]] launch_fault enqueue() noexcept;

 private:
  [[nodiscard]] launch_fault enqueue_node(stream& on, std::size_t node) noexcept;
  [[nodiscard]] fault copy_in(stream& on) noexcept;
  void add_frames_in(std::int64_t first, std::int64_t end) noexcept;
  void add_shared_in() noexcept;
  [[nodiscard]] fault copy_out(stream& on, std::size_t output) noexcept;
  void add_frames_out(const plan_output& output, std::int64_t first, std::int64_t end) noexcept;
  void add_shared_out(std::size_t output) noexcept;
  [[nodiscard]] const std::byte* source_of(std::size_t buffer) const noexcept;
  [[nodiscard]] std::byte* place_of(std::size_t buffer) const noexcept;
  [[nodiscard]] std::uint32_t lane_of(std::size_t stage) const noexcept { return plan_.order.steps[stage + 1].lane; }
  [[nodiscard]] fault run_stage(stream& on, std::size_t index) noexcept;
  [[nodiscard]] fault run_keeper(stream& on, std::size_t index, operation_arguments& arguments) noexcept;

  slot& slot_;
  const plan& plan_;
  batch_means with_;
  const void** operand_;
  bool reads_pinned_;   // the stages read the input on the host
  bool writes_pinned_;  // and leave the outputs where they go out
};

}  // namespace penstock
