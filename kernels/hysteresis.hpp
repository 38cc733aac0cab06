#pragma once

#include <bit>
#include <cstdint>

#include "kernels/function_attributes.hpp"

namespace penstock {

/// 32 consecutive samples against a threshold with hysteresis, one bit a sample, the first in the lowest bit.
///
/// Each sample is a map on the states {off, on}: `set` leads to on, `reset` to off, and a sample that is neither
/// leaves the state as it is. No sample is both.
struct hysteresis_word {
  std::uint32_t set = 0;    ///< ≥ high
  std::uint32_t reset = 0;  ///< < low

  /// The state (1 is on) before each sample; `initial` is the state before the first. This is the carry of an
  /// addition: `set` generates it, `reset` kills it, anything else propagates it.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::uint32_t states_before(bool initial) const noexcept {
    const std::uint32_t open = ~reset;
    return (open + set + (initial ? 1U : 0U)) ^ open ^ set;
  }
  /// The samples that belong to an event.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::uint32_t events(std::uint32_t before) const noexcept {
    return set | (before & ~reset);
  }
  /// The samples at which an event starts.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::uint32_t starts(std::uint32_t before) const noexcept { return set & ~before; }
};

/// The effect of a run of samples: the composition of their maps on the state, and the number of events that start in
/// it. Runs are joined in order, in any grouping; a run without samples is {}.
struct hysteresis_run {
  std::int32_t starts = 0;  ///< when it is entered off
  bool first_sets = false;  ///< the first sample that isn't neutral sets: entered on, it starts one event fewer
  bool neutral = true;      ///< it leaves every state as it is
  bool leaves_on = false;   ///< unless neutral

  [[nodiscard]] PENSTOCK_HOST_DEVICE static hysteresis_run of(const hysteresis_word& word) noexcept {
    const std::uint32_t either = word.set | word.reset;
    const std::uint32_t before = word.states_before(false);
#ifdef __CUDA_ARCH__
    const std::int32_t starts = __popc(word.starts(before));
#else
    const std::int32_t starts = std::popcount(word.starts(before));
#endif
    return {starts, (word.set & either & (~either + 1U)) != 0, either == 0, (word.events(before) >> 31U) != 0};
  }

  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int32_t starts_from(bool initial) const noexcept {
    return starts - (initial && first_sets ? 1 : 0);
  }
  [[nodiscard]] PENSTOCK_HOST_DEVICE bool state_from(bool initial) const noexcept {
    return neutral ? initial : leaves_on;
  }

  [[nodiscard]] PENSTOCK_HOST_DEVICE hysteresis_run then(const hysteresis_run& next) const noexcept {
    if (neutral) {
      return next;
    }
    return {starts + next.starts_from(leaves_on), first_sets, false, next.state_from(leaves_on)};
  }
};

}  // namespace penstock
