#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/batch/completion_queue.hpp"
#include "daemon/device/device.hpp"
#include "daemon/request/counters.hpp"
#include "daemon/request/request.hpp"
#include "kernels/fault.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// Timed events around each step of a batch: the copy in, the stages, the copies out, in the order of schedule::steps.
/// The recorder puts one into the slot of a batch that is timed; the batch's launch records them. Thread: the shard.
struct batch_clock {
  /// Throws device_error.
  batch_clock(device& device, std::size_t steps) {
    for (std::size_t step = 0; step < steps; ++step) {
      begins.push_back(device.open_event(true));
      ends.push_back(device.open_event(true));
    }
  }

  std::vector<std::unique_ptr<event>> begins;
  std::vector<std::unique_ptr<event>> ends;
};

/// The requests that are launched together, in the order of their frames. Part of a slot. Thread: the shard.
struct batch {
  const plan* pipeline = nullptr;
  std::vector<request*> requests;  ///< reserved for the most frames that any plan batches
  /// The mode of its one request if the payload stays in the message; `shared` if any request is shared; else `copied`.
  payload_mode payload = payload_mode::copied;
  std::size_t shared = 0;      ///< requests whose frames are in shared memory
  std::uint32_t message = 0;   ///< if the payload stays in its message: the index in the payload_store
  std::byte* input = nullptr;  ///< that payload, once the batch is launched
  std::int64_t frames = 0;
  std::int64_t leading = 0;  ///< leading dimension of its frames in the input
  time_point oldest = never;
  time_point launched = never;
  close_reason reason = close_reason::idle;
  fault refused;  ///< set if the device refused a part of its work: the batch has no results

  void clear() noexcept {
    pipeline = nullptr;
    requests.clear();
    payload = payload_mode::copied;
    shared = 0;
    input = nullptr;
    frames = 0;
    oldest = never;
    launched = never;
    refused = {};
  }
};

/// The size of a slot: the most that any plan of the shard needs.
struct slot_size {
  std::size_t pinned_input = 0;
  std::size_t pinned_output = 0;
  std::size_t workspace = 0;
  std::size_t max_frames = 0;  ///< of a batch, and so its most requests
  std::size_t launches = 0;    ///< stages of a plan
  std::size_t operands = 0;    ///< inputs of all stages of a plan
  std::size_t results = 0;     ///< outputs of all stages of a plan
  std::size_t lanes = 1;       ///< streams of a batch
  std::size_t events = 0;      ///< between the streams of a batch
};

/// The needs of the largest of these plans.
[[nodiscard]] slot_size size_for(std::span<const plan> plans);
/// The same with spare room where that costs little memory, so that a reload can add larger plans, and make numbers
/// tunable.
[[nodiscard]] slot_size with_room(slot_size least, std::size_t streams);
/// Says what slots of size `available` lack for a plan that needs `needed`; "" if nothing.
[[nodiscard]] std::string lack_of(const slot_size& available, const slot_size& needed);

/// The memory of one batch: a pinned input region, a pinned output region, a workspace on the device.
///
/// It has one owner at a time: the open batch, then the device, then the replies that are sent from its output. It
/// returns to the ring with its last reference. Immovable: device callbacks and messages hold its address.
struct slot {
  slot() = default;
  slot(const slot&) = delete;
  slot& operator=(const slot&) = delete;
  ~slot() = default;

  std::uint32_t index = 0;
  device_memory pinned_input;
  device_memory pinned_output;
  device_memory workspace;
  std::unique_ptr<event> done;  ///< recorded behind the copies out when completions are polled
  batch work;

  batch_clock* clock = nullptr;  ///< set if the batch is timed

  // Written by the stream pool and by batch_launch.
  std::vector<std::uint32_t> streams;           ///< by lane
  std::vector<std::unique_ptr<event>> joints;   ///< between lanes, by the plan's numbers
  std::vector<std::unique_ptr<event>> carried;  ///< by lane: behind its last stage that keeps state
  std::uint64_t launch = 0;                     ///< number of the launch; 0 unless in flight
  std::vector<const slot*> predecessors;        ///< slots in flight whose states this batch continues
  std::vector<operation_arguments> launches;    ///< by stage; must live until the batch completes
  std::vector<const void*> operands;
  std::vector<void*> results;

  completion_node completed;  ///< pushed by the device's callback, or by the stream pool if it polls
  completion_node returned;   ///< pushed by the thread that drops the last reference
  /// Incremented by the shard; decremented by the shard and by ZeroMQ's threads.
  std::atomic<std::uint32_t> references{0};
};

/// The slots of a shard. All memory is allocated in the constructor. Thread: the shard, except for `drop`.
class slot_ring {
 public:
  /// `polled`: slots get an event to poll. Completed batches are pushed to `completed`; `signal` wakes the shard when
  /// another thread returns a slot. Throws device_error if the device has too little memory.
  slot_ring(device& device, std::size_t slots, const slot_size& size, bool polled, completion_queue& completed,
            wake_event& signal);

  /// A free slot with one reference, or nullptr.
  [[nodiscard]] slot* claim() noexcept;
  /// Drops one reference; the last one returns the slot. Any thread.
  static void drop(slot& held) noexcept;
  /// Takes back the slots that were returned since the last call. Returns whether there were any.
  bool collect() noexcept;
  /// Whether `collect` would find any.
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
