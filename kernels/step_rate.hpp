#pragma once

#include <cstdint>

namespace penstock {

/// How many steps come out for the steps that went in, counted from a session's start: a decimation by D gives one at
/// once and then one for every D, {D, D − 1}; frames of N are given when they are whole, {N, 0}.
struct step_rate {
  std::int64_t divisor = 1;
  std::int64_t offset = 0;  ///< 0 … divisor − 1

  bool operator==(const step_rate&) const = default;
  /// Steps given once `taken` have been taken.
  [[nodiscard]] constexpr std::int64_t total(std::int64_t taken) const noexcept { return (taken + offset) / divisor; }
  /// The most that `taken` steps can give, wherever they begin.
  [[nodiscard]] constexpr std::int64_t most(std::int64_t taken) const noexcept {
    return (taken + divisor - 1) / divisor;
  }
  /// Whether how many steps a frame gives depends on what came before it.
  [[nodiscard]] constexpr bool ragged() const noexcept { return divisor != 1; }
  /// Both, one behind the other: ⌊(⌊(n + a) / d⌋ + b) / e⌋ = ⌊(n + a + d·b) / (d·e)⌋.
  [[nodiscard]] constexpr step_rate then(const step_rate& next) const noexcept {
    return {divisor * next.divisor, offset + divisor * next.offset};
  }
};

}  // namespace penstock
