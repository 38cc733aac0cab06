#pragma once

#include <limits>
#include <string>

namespace penstock::bench {

/// Of the rows that an aim is about, the one whose ratio is the lowest, which is the farthest from the aim.
struct lowest_row {
  double ratio = std::numeric_limits<double>::infinity();
  std::string text{};  ///< as the table shows it: "80 % (76–92), ipc, 64 KiB, 1 client"

  void take(double candidate, const std::string& shown) {
    if (candidate < ratio) {
      ratio = candidate;
      text = shown;
    }
  }
  /// Whether there was any.
  [[nodiscard]] bool known() const noexcept { return ratio < std::numeric_limits<double>::infinity(); }
};

}  // namespace penstock::bench
