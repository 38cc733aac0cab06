#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace penstock::live {

/// Pauses before something that failed is tried again: each is twice the last, up to the longest. One thread.
class back_off {
 public:
  static constexpr std::chrono::milliseconds first_pause{50};
  static constexpr std::chrono::milliseconds longest_pause{5000};

  /// When to try again, after a failure now.
  [[nodiscard]] std::chrono::steady_clock::time_point next(std::chrono::steady_clock::time_point now) noexcept {
    return now + std::exchange(pause_, std::min(2 * pause_, longest_pause));
  }
  void reset() noexcept { pause_ = first_pause; }

 private:
  std::chrono::milliseconds pause_ = first_pause;
};

}  // namespace penstock::live
