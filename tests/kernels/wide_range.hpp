#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tests/kernels/random_input.hpp"

namespace penstock {

/// Noise whose level jumps by many decades from one stretch to the next, up to the ends of f32's range, with single
/// samples far above it and stretches of zeros.
inline std::vector<float> wide_range_noise(random_input& random, std::size_t count) {
  constexpr std::array<float, 8> levels{1.0F, 1e-4F, 1e3F, 1e-12F, 1e-30F, 1e20F, 0.0F, 30.0F};
  std::vector<float> values = random.normal(count);
  for (std::size_t first = 0; first < count;) {
    const auto length = static_cast<std::size_t>(random.integer(1, static_cast<std::int64_t>(count) / 3));
    const float level = levels[static_cast<std::size_t>(random.integer(0, levels.size() - 1))];
    for (std::size_t at = first; at < std::min(first + length, count); ++at) {
      values[at] *= level;
    }
    first += length;
  }
  for (const float far : {1e20F, -3e38F, 1e10F}) {
    values[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(count) - 1))] = far;
  }
  return values;
}

/// A low-pass filter whose taps' absolutes sum to little more than 1.
inline std::vector<double> low_pass(std::int64_t taps) {
  const double pi = std::acos(-1.0);
  std::vector<double> made;
  double sum = 0.0;
  for (std::int64_t k = 0; k < taps; ++k) {
    made.push_back(1.0 - std::cos(2.0 * pi * (static_cast<double>(k) + 0.5) / static_cast<double>(taps)));
    sum += made.back();
  }
  for (double& tap : made) {
    tap = static_cast<double>(static_cast<float>(tap / sum));
  }
  return made;
}

}  // namespace penstock
