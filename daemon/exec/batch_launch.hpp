#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/batch/slot_ring.hpp"
#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/counters.hpp"

namespace penstock {

/// The device refused a call for a batch: the error, and the stage of the call ("" for a copy or an event). The cause
/// may be an earlier stage: see stream::launch.
struct launch_fault {
  fault error;
  const char* stage = "";
};

/// The resources that a batch is enqueued with.
struct launch_resources {
  std::span<stream* const> lanes;  ///< the streams, by lane
  copy_list& pieces;               ///< scratch; has room for one piece per frame and input, and one more
  copied_bytes& copied;
  std::byte* states;         ///< the plan's state pool; nullptr if it keeps no state
  std::size_t direct_bytes;  ///< of the plan on this device: see device_facts
};

/// Enqueues the work of one batch: the copy in, the stages and the copies out, each on its lane as the plan's schedule
/// says, with the events and waits between them. Never waits. Thread: the shard.
class batch_launch {
 public:
  /// Requires a complete slot: payloads, session frames, stream numbers.
  batch_launch(slot& filled, const launch_resources& resources) noexcept;

  /// Without a fault, whatever is enqueued on lane 0 afterwards runs after the whole batch. After a fault, a part of
  /// the batch may be enqueued.
  [[nodiscard]] launch_fault enqueue() noexcept;

 private:
  /// Memory in which the stages read the input or write the outputs.
  enum class operand_memory : std::uint8_t {
    device,   ///< the slot's workspace; copied in or out
    pinned,   ///< the slot's pinned regions; only what is in shared memory is copied
    message,  ///< the received message; nothing is copied
    arena,    ///< the shared memory of the batch's one request; nothing is copied
  };

  [[nodiscard]] static operand_memory input_memory(const batch& work, std::size_t direct_bytes) noexcept;
  [[nodiscard]] static operand_memory output_memory(const batch& work, std::size_t direct_bytes) noexcept;
  [[nodiscard]] static operand_memory blocking_memory(const batch& work) noexcept;
  [[nodiscard]] launch_fault enqueue_step(stream& stream, std::size_t step) noexcept;
  [[nodiscard]] bool copies(operand_memory memory) const noexcept;
  [[nodiscard]] fault copy_in(stream& stream) noexcept;
  void add_piece(void* target, const void* source, std::size_t bytes, std::uint64_t& counted) noexcept;
  void add_shared_piece(const request& shared, void* target, const void* source, std::size_t bytes,
                        std::uint64_t& counted) noexcept;
  void add_frames_in(std::size_t input, std::int64_t first, std::int64_t end) noexcept;
  void add_shared_in(std::size_t input) noexcept;
  [[nodiscard]] fault copy_out(stream& stream, std::size_t output) noexcept;
  void add_frames_out(const plan_output& output, std::int64_t first, std::int64_t end) noexcept;
  void add_shared_out(std::size_t output) noexcept;
  [[nodiscard]] const std::byte* operand(std::size_t buffer) const noexcept;
  [[nodiscard]] std::byte* result(std::size_t buffer) const noexcept;
  [[nodiscard]] const std::byte* frame_table() const noexcept;
  [[nodiscard]] std::uint32_t lane_of(std::size_t stage) const noexcept { return plan_.order.steps[stage + 1].lane; }
  [[nodiscard]] fault run_stage(stream& stream, std::size_t index) noexcept;
  [[nodiscard]] fault run_stateful(stream& stream, std::size_t index, operation_arguments& arguments) noexcept;

  slot& slot_;
  const plan& plan_;
  launch_resources resources_;
  const void** next_operand_;
  void** next_result_;
  operand_memory input_;
  operand_memory outputs_;
};

}  // namespace penstock
