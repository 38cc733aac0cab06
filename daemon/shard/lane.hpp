#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "daemon/batcher/batcher.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/fair_queue.hpp"
#include "daemon/ring/ring.hpp"

namespace penstock {

/// One pipeline's way into slots: the requests that wait, and the open slot that is being filled. Thread: the shard.
class lane {
 public:
  explicit lane(const plan& of);

  [[nodiscard]] const plan& pipeline() const noexcept { return what_; }
  [[nodiscard]] stream_priority priority() const noexcept { return what_.declaration.priority; }
  /// When work that came at that time counts as having come: a higher priority is ahead by a fixed time for each level.
  /// What has waited longer than that still comes first, so that a lane with endless work never starves another.
  [[nodiscard]] time_point turn_of(time_point received) const noexcept { return received - ahead_; }

  [[nodiscard]] bool fits(const request& what) const noexcept;
  /// Why the open slot has to be closed before `what` gets into one.
  [[nodiscard]] close_reason reason_against(const request& what) const noexcept;
  /// Takes an empty slot to be filled, `first` being the first that comes into it.
  void open(slot& empty, const request& first) noexcept;
  /// Copies the payload into the open slot, behind what is there. `what` fits.
  void put(request& what, std::span<const std::byte> payload) noexcept;
  /// The open slot leaves the lane.
  [[nodiscard]] slot& close() noexcept;
  /// What the batcher looks at.
  [[nodiscard]] batch_fill fill() const noexcept;

  [[nodiscard]] slot* filling() const noexcept { return open_; }

  fair_queue waiting;
  bool blocked = false;  ///< the dispatcher's: there is no slot for its first request

 private:
  const plan& what_;
  slot* open_ = nullptr;
  std::chrono::nanoseconds ahead_;
};

}  // namespace penstock
