#pragma once

#include <cstdint>
#include <memory>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// detrend: each row along the last axis without its mean, or without its line of least squares, as
/// scipy.signal.detrend of each row.
///
///   "constant"  y[n] = x[n] - mean
///   "linear"    y[n] = x[n] - mean - slope · (n - (N - 1) / 2), slope = Σ (n - (N - 1) / 2) · x[n] / Σ (n - (N - 1) /
///   2)²
/// Sums are of the differences to one of the row's values, in float64, so a level of a million deviations costs
/// nothing.
///
/// Input: f32 or cf32, whose parts are taken each by itself; the last extent N may be "max N" when it is the leading
/// one. Output: the input's spec. A row of one sample becomes 0.
/// Parameters:
///   type  "linear" (default) or "constant"
/// Error: within 1e-6 of the largest difference between two samples of the row. A NaN or an infinity makes its row not
/// finite.
struct detrend_settings {
  bool linear = true;
  std::int64_t parts = 1;  ///< 2 for cf32
  frame_rows rows;         ///< of the input
  tensor_spec output;
};

/// Σ (n - (N - 1) / 2)² over a row of N samples.
[[nodiscard]] PENSTOCK_HOST_DEVICE constexpr double spread_of_places(std::int64_t length) noexcept {
  const double n = static_cast<double>(length);
  return n * (n * n - 1.0) / 12.0;
}

/// Throws parameter_error.
[[nodiscard]] inline detrend_settings parse_detrend(const parameters& settings, const tensor_spec& input) {
  using enum element_type;
  require_element_type("detrend", input, {f32, cf32});
  detrend_settings parsed;
  parsed.linear = parse_choice(settings, "type", {"linear", "constant"}) == 0;
  parsed.parts = is_complex(input.type) ? 2 : 1;
  parsed.rows = frame_rows{input};
  parsed.output = input;
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_detrend_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_detrend_cuda(const operation_request& request);

}  // namespace penstock
