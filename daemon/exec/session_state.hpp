#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/batch/slot_ring.hpp"
#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"

// The state of sessions on the device, and the table that tells the stages of a batch which state each frame uses and
// which numbers hold for it.

namespace penstock {

/// The states of a shard's sessions: for each plan with state and each place of the session table, two halves. A batch
/// reads one half and writes the other. Allocated in the constructor; never cleared, because session_frame says which
/// frame begins a session. Thread: the shard.
class state_pool {
 public:
  /// Throws device_error if the device has too little memory.
  state_pool(device& device, std::span<const plan> plans, std::uint32_t max_sessions);

  /// The states of the plan with that plan::place; nullptr if it keeps none.
  [[nodiscard]] std::byte* states_of(std::uint32_t place) const noexcept { return by_plan_[place].get(); }
  /// Adds the states of a plan that a reload adds; its place is the next.
  void add(device_memory states) { by_plan_.push_back(std::move(states)); }
  /// Moves out the states of a plan that nothing refers to, or that moves to another pool.
  [[nodiscard]] device_memory take(std::uint32_t place) noexcept { return std::move(by_plan_[place]); }
  [[nodiscard]] std::uint32_t sessions() const noexcept { return sessions_; }

 private:
  std::uint32_t sessions_;
  std::vector<device_memory> by_plan_;
};

/// Writes the session frames of a batch into its pinned input, for each stage that keeps state. The slot takes over its
/// sessions' states, and slot::predecessors lists the slots in flight that had them before. Call it once for each
/// launch, in the order of launches. Thread: the shard.
void write_session_frames(slot& filled);

/// Writes the numbers of each frame of a batch into its pinned input, behind the session frames, for each tuned stage.
void write_numbers(slot& filled) noexcept;

/// The same with those of the configuration for all frames.
void write_warm_up_numbers(slot& filled) noexcept;

/// As write_session_frames for a warm-up batch, whose frames belong to no session: each frame begins a state of its
/// own, for as many frames as there are `sessions`.
void write_warm_up_frames(slot& filled, std::uint32_t sessions);

}  // namespace penstock
