#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "daemon/pipeline/plan.hpp"
#include "daemon/ring/batch_clock.hpp"

namespace penstock {

/// Clocks for the batches that are timed, each with events for the largest plan, and for some that may come later. All
/// are made at start-up. They must
/// live longer than the streams that record them. Thread: the shard.
class clock_pool {
 public:
  /// Throws device_error.
  clock_pool(device& from, std::span<const plan> plans, std::size_t clocks);

  /// nullptr when all are with batches.
  [[nodiscard]] batch_clock* claim() noexcept;
  void give_back(batch_clock& done) noexcept { free_.push_back(&done); }

  [[nodiscard]] std::size_t size() const noexcept { return clocks_.size(); }
  /// Of a batch: what has more can't be timed.
  [[nodiscard]] std::size_t steps() const noexcept { return steps_; }

 private:
  static constexpr std::size_t least_steps = 32;

  std::size_t steps_ = least_steps;
  std::vector<std::unique_ptr<batch_clock>> clocks_;
  std::vector<batch_clock*> free_;
};

}  // namespace penstock
