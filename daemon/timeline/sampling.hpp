#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "daemon/request/request.hpp"

namespace penstock {

/// Which batches are timed: at most so many a second, evenly spread. Thread: the shard.
class sampling {
 public:
  explicit sampling(std::uint32_t per_second) noexcept { set_rate(per_second); }

  void set_rate(std::uint32_t per_second) noexcept {
    interval_ =
        per_second == 0 ? std::chrono::nanoseconds{} : std::chrono::nanoseconds{std::chrono::seconds{1}} / per_second;
  }

  /// Whether a batch may be timed now; if so, the next may be one interval later. Turns that were not used are lost.
  [[nodiscard]] bool take(time_point now) noexcept {
    if (interval_.count() == 0 || now < next_) {
      return false;
    }
    next_ = now - next_ < interval_ ? next_ + interval_ : now + interval_;
    return true;
  }
  /// None until then.
  void pause(time_point until) noexcept { next_ = std::max(next_, until); }

 private:
  std::chrono::nanoseconds interval_{};  // 0 = never
  time_point next_{};
};

}  // namespace penstock
