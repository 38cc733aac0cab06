#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/plan.hpp"

namespace penstock {

/// The states of a shard's sessions: for each plan that keeps some, two halves for each place of the session table.
/// Allocated when it is made, never cleared (session_frame says why). Thread: the shard.
class state_pool {
 public:
  /// Throws device_error when the device can't give the memory.
  state_pool(device& from, std::span<const plan> plans, std::uint32_t max_sessions);

  /// Of a plan, by its place; nullptr when it keeps no state.
  [[nodiscard]] std::byte* of(std::uint32_t plan) const noexcept { return by_plan_[plan].get(); }
  /// The states of a plan that comes later, as another pool has allocated them; its place is the next.
  void add(device_memory states) { by_plan_.push_back(std::move(states)); }
  /// A plan that nothing refers to any more, or that goes to another pool, leaves with its states.
  [[nodiscard]] device_memory take(std::uint32_t plan) noexcept { return std::move(by_plan_[plan]); }
  [[nodiscard]] std::uint32_t places() const noexcept { return places_; }

 private:
  std::uint32_t places_;
  std::vector<device_memory> by_plan_;
};

}  // namespace penstock
