#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/operation.hpp"

namespace penstock {

/// Random shapes and samples. The seed is PENSTOCK_TEST_SEED where that is set; a failing test shows it.
class random_input {
 public:
  random_input() : seed_{chosen_seed()}, engine_{seed_} {}

  [[nodiscard]] std::string trace() const { return "PENSTOCK_TEST_SEED=" + std::to_string(seed_); }

  /// Between both, both included.
  [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>{least, most}(engine_);
  }
  [[nodiscard]] double real(double least, double most) {
    return std::uniform_real_distribution<double>{least, most}(engine_);
  }
  [[nodiscard]] bool coin() { return integer(0, 1) == 1; }

  /// One to three dimensions, the last of `least` to `most` elements, "max N" half of the time.
  [[nodiscard]] tensor_spec spec(element_type type, std::int64_t least, std::int64_t most) {
    tensor_spec made{.type = type, .shape = {}, .variable = coin()};
    for (std::int64_t outer = integer(0, 2); outer > 0; --outer) {
      made.shape.push_back(integer(1, 4));
    }
    made.shape.push_back(integer(least, most));
    return made;
  }
  /// The same, but the last axis is never variable.
  [[nodiscard]] tensor_spec fixed_row_spec(element_type type, std::int64_t least, std::int64_t most) {
    tensor_spec made = spec(type, least, most);
    made.variable = made.variable && made.shape.size() > 1;
    return made;
  }
  [[nodiscard]] batch_extent extent(const tensor_spec& spec) {
    return {.frames = coin() ? 1 : integer(2, 9), .leading = spec.variable ? integer(1, spec.shape.front()) : 0};
  }

  /// Makes samples NaN or infinite: single ones, the first, and a run of up to a third.
  void spoil(std::vector<float>& samples) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr std::array<float, 3> invalid{std::numeric_limits<float>::quiet_NaN(), infinity, -infinity};
    const auto last = static_cast<std::int64_t>(samples.size()) - 1;
    for (std::int64_t left = last / 40 + 1; left > 0; --left) {
      samples[static_cast<std::size_t>(integer(0, last))] = invalid[static_cast<std::size_t>(integer(0, 2))];
    }
    samples[0] = invalid[0];
    const std::int64_t begin = integer(0, last);
    const std::int64_t end = std::min(last + 1, begin + integer(0, last / 3));
    std::fill(samples.begin() + begin, samples.begin() + end, invalid[0]);
  }

  template <class Integer>
  [[nodiscard]] std::vector<Integer> integers(std::size_t count) {
    std::uniform_int_distribution<std::int64_t> any{std::numeric_limits<Integer>::min(),
                                                    std::numeric_limits<Integer>::max()};
    std::vector<Integer> values(count);
    for (Integer& value : values) {
      value = static_cast<Integer>(any(engine_));
    }
    return values;
  }
  [[nodiscard]] std::vector<float> normal(std::size_t count, double mean = 0.0, double deviation = 1.0) {
    std::normal_distribution<double> any{mean, deviation};
    std::vector<float> values(count);
    for (float& value : values) {
      value = static_cast<float>(any(engine_));
    }
    return values;
  }

 private:
  static std::uint32_t chosen_seed() {
    const char* const given = std::getenv("PENSTOCK_TEST_SEED");
    return given == nullptr ? std::random_device{}() : static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10));
  }

  std::uint32_t seed_;
  std::mt19937_64 engine_;
};

/// Values in a batch of these frames; a complex element is two.
[[nodiscard]] inline std::size_t values_in(const tensor_spec& spec, const batch_extent& extent) {
  return static_cast<std::size_t>(extent.frames * spec.elements(extent.leading)) * (is_complex(spec.type) ? 2 : 1);
}

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
