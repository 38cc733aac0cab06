#include "daemon/memory/memory_budget.hpp"

#include <algorithm>

namespace penstock {
bool memory_budget::take(std::size_t bytes) noexcept {
  std::size_t now = used_.load(std::memory_order_relaxed);
  do {
    if (now > limit_ || bytes > limit_ - now) {
      return false;
    }
  } while (!used_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  return true;
}

std::size_t memory_budget::left() const noexcept {
  const std::size_t now = used();
  return limit_ - std::min(now, limit_);
}

}  // namespace penstock
