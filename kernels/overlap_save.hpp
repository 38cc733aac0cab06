#pragma once

#include <cstdint>

#include "kernels/parameters.hpp"

namespace penstock {

/// How an operator takes sums of products along a row: directly, or by the fast Fourier transform (overlap-save: A. V.
/// Oppenheim, R. W. Schafer, Discrete-Time Signal Processing, 8.7).
enum class sum_method { automatic, direct, fft };

/// The parameter `method`: "auto" (default), "direct" or "fft". Throws parameter_error.
[[nodiscard]] sum_method parse_sum_method(const parameters& settings);

/// How overlap-save cuts a row of results into blocks, each from one transform of `length` samples.
///
/// Block b begins b · step samples after the first sample of the row's first result. With Z = X · conj(H), of the
/// block's samples and of the taps continued by zeros, z[i] is result b · step + i, for i below `step`: `length` is so
/// large that none of these wraps around onto a sample that isn't 0.
struct overlap_save_blocks {
  std::int64_t length = 0;  ///< of the transform; even, of small prime factors
  std::int64_t step = 0;    ///< results of a block; the last may have fewer
  std::int64_t count = 0;   ///< blocks of a row
  double operations = 0.0;  ///< of a row, relative

  [[nodiscard]] std::int64_t bins() const noexcept { return length / 2 + 1; }
};

/// The blocks that take the fewest operations, for `results` of `taps` terms each. A single block needs `one_block`
/// samples for all results.
[[nodiscard]] overlap_save_blocks plan_overlap_save(std::int64_t results, std::int64_t taps, std::int64_t one_block);

}  // namespace penstock
