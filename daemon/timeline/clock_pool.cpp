#include "daemon/timeline/clock_pool.hpp"

#include <algorithm>

namespace penstock {

clock_pool::clock_pool(device& from, std::span<const plan> plans, std::size_t clocks) {
  for (const plan& each : plans) {
    steps_ = std::max(steps_, each.order.steps.size());
  }
  for (std::size_t made = 0; made < clocks; ++made) {
    free_.push_back(clocks_.emplace_back(std::make_unique<batch_clock>(from, steps_)).get());
  }
}

batch_clock* clock_pool::claim() noexcept {
  if (free_.empty()) {
    return nullptr;
  }
  batch_clock* const taken = free_.back();
  free_.pop_back();
  return taken;
}

}  // namespace penstock
