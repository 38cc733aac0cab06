#pragma once

#include <cstdint>

namespace penstock {

/// How much a count has risen since it was `before`. One that fell has begun anew.
[[nodiscard]] inline double rise(std::uint64_t now, std::uint64_t before) noexcept {
  return static_cast<double>(now < before ? now : now - before);
}

}  // namespace penstock
