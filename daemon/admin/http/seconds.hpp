#pragma once

#include <chrono>

namespace penstock {

/// A time as what is answered over HTTP has it.
[[nodiscard]] inline double seconds(std::chrono::nanoseconds time) noexcept {
  return std::chrono::duration<double>(time).count();
}

}  // namespace penstock
