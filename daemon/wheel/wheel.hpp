#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/settings/settings.hpp"

namespace penstock {

/// A batch could not be enqueued: the device's error, and the stage that it came up at ("" for a copy).
struct launch_fault {
  fault what;
  const char* stage = "";
};

/// The streams of a shard, used in rotation. It enqueues and never waits. Thread: the shard.
class wheel {
 public:
  /// How many batches a stream may have: one that it runs, one behind it, so that the device never runs dry.
  static constexpr std::uint32_t depth = 2;

  /// Throws device_error. Batches that are done go to their slot's completion queue: pushed by the device's callback
  /// or, when polled, by `poll`.
  wheel(device& on, int streams, completion_mode mode);

  [[nodiscard]] wheel_room room() const noexcept;
  /// Enqueues the slot's batch on the next stream that is free: copy in, the stages, copy out, the completion.
  /// There must be room. After a fault the slot is still in the device's hands: other work of the batch may be queued.
  [[nodiscard]] launch_fault launch(slot& filled, time_point now) noexcept;
  /// Polled completions: pushes every batch that has finished. Returns whether there was one.
  bool poll() noexcept;
  /// The shard has seen the slot's completion: its stream has room again.
  void retire(slot& completed) noexcept;

  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
  [[nodiscard]] completion_mode mode() const noexcept { return mode_; }
  /// Start-up only: runs the plan once on every stream for each batch size that may need a kernel of its own.
  /// Throws device_error with what failed.
  void warm_up(const plan& what, slot& on);

 private:
  struct spoke {
    std::unique_ptr<stream> queue;
    std::uint32_t batches = 0;
    slot* polled[depth] = {};  // in the order of their launches
  };

  [[nodiscard]] std::uint32_t next_stream() noexcept;
  [[nodiscard]] launch_fault enqueue_work(stream& on, const plan& what, slot& with) noexcept;
  [[nodiscard]] launch_fault enqueue_stages(stream& on, const plan& what, slot& with) noexcept;

  completion_mode mode_;
  std::vector<spoke> spokes_;
  std::uint32_t turn_ = 0;
  std::size_t in_flight_ = 0;
};

}  // namespace penstock
