#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/completion/completion.hpp"
#include "daemon/device/device.hpp"
#include "daemon/ring/batch.hpp"
#include "daemon/ring/batch_clock.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// What a ring is made for: the most that any plan of the shard needs.
struct slot_size {
  std::size_t pinned_input = 0;
  std::size_t pinned_output = 0;
  std::size_t arena = 0;
  std::size_t max_frames = 0;  ///< of a batch: so many requests it may have
  std::size_t launches = 0;    ///< stages of a plan
  std::size_t operands = 0;    ///< inputs of all stages of a plan together
  std::size_t lanes = 1;       ///< streams that a batch runs on
  std::size_t events = 0;      ///< between the streams of a batch
};

/// What the largest of these plans needs.
[[nodiscard]] slot_size size_for(std::span<const plan> plans);
/// The same with room to spare for what costs little memory, so that other plans can take the place of these later.
[[nodiscard]] slot_size with_room(slot_size least, std::size_t streams) noexcept;
/// What such a slot lacks for a plan: "" when it has it all, else for people.
[[nodiscard]] std::string lack_of(const slot_size& there, const slot_size& needed);

/// The home of one batch: a pinned input region, a pinned output region, a device arena.
///
/// One owner at a time: the open batch, then the device, then the replies that are sent from its output. It goes back
/// to the ring when the last reference is dropped, never earlier. Immovable: device callbacks and messages under way
/// hold its address.
struct slot {
  slot() = default;
  slot(const slot&) = delete;
  slot& operator=(const slot&) = delete;
  ~slot() = default;

  std::uint32_t index = 0;
  device_memory pinned_input;
  device_memory pinned_output;
  device_memory arena;
  std::unique_ptr<event> done;  ///< recorded behind the copies out when completions are polled
  batch work;

  batch_clock* clock = nullptr;  ///< of a batch that is timed

  /// The wheel's: a lane's stream, by lane; the events between lanes, by the plan's numbers; and, by lane, the one
  /// behind the lane's last stage that keeps state.
  std::vector<std::uint32_t> streams;
  std::vector<std::unique_ptr<event>> joints;
  std::vector<std::unique_ptr<event>> carried;
  std::uint64_t launch = 0;               ///< which launch the slot is in flight with; 0 when it is not
  std::vector<const slot*> predecessors;  ///< whose states this batch continues, while they are in flight

  /// The wheel's: arguments of the launches, alive until the device has done with them.
  std::vector<operation_arguments> launches;
  std::vector<const void*> operands;

  completion_node completed;  ///< pushed by the device's callback, or by the wheel when it polls
  completion_node returned;   ///< pushed by whoever drops the last reference
  /// Added to by the shard, dropped by the shard and by ZeroMQ's threads.
  std::atomic<std::uint32_t> references{0};
};

/// The slots of a shard. All memory is allocated when it is made. Thread: the shard, but for `drop`.
class ring {
 public:
  /// Throws device_error when the device can't give the memory. `polled`: slots get an event for polling.
  /// Batches that are done go to `completed`; `signal` wakes the shard when slots come back.
  ring(device& from, std::size_t slots, const slot_size& size, bool polled, completion_queue& completed,
       wake_signal& signal);

  /// A slot with one reference, nullptr when all are taken.
  [[nodiscard]] slot* claim() noexcept;
  /// Any thread: gives up one reference; with the last one the slot comes back.
  static void drop(slot& held) noexcept;
  /// Takes back what other threads have dropped since. Returns whether there was anything.
  bool collect() noexcept;
  /// Whether `collect` would find something.
  [[nodiscard]] bool has_returned() const noexcept { return !returned_.empty(); }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  [[nodiscard]] std::size_t free() const noexcept { return free_.size(); }
  [[nodiscard]] const slot_size& slot_bytes() const noexcept { return size_; }

 private:
  slot_size size_;
  std::vector<std::unique_ptr<slot>> slots_;
  std::vector<slot*> free_;
  completion_queue returned_;
};

}  // namespace penstock
