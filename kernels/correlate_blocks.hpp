#pragma once

#include <cstdint>

#include "kernels/correlate.hpp"

namespace penstock {

/// How `correlate` by "fft" cuts a row of results into blocks, each from one transform of `length` samples.
///
/// Block b begins start() + b · step samples after the row's start. With Z = X · conj(H), of the block's samples and of
/// the template continued by zeros, z[i] is result b · step + i, for i below `step`: `length` is so large that none of
/// these wraps around onto a sample that isn't 0.
struct correlate_blocks {
  std::int64_t length = 0;  ///< of the transform; even, of small prime factors
  std::int64_t step = 0;    ///< results of a block; the last may have fewer
  std::int64_t count = 0;   ///< blocks of a row
  double operations = 0.0;  ///< of a row, in no unit

  [[nodiscard]] std::int64_t bins() const noexcept { return length / 2 + 1; }
};

/// Those that take the fewest operations.
[[nodiscard]] correlate_blocks plan_correlate_blocks(const correlate_settings& settings);
/// The same for `results` of so many taps each, of which one block of `one_block` samples gives all.
[[nodiscard]] correlate_blocks plan_correlate_blocks(std::int64_t results, std::int64_t taps, std::int64_t one_block);

}  // namespace penstock
