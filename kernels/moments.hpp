#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// moments: mean, population standard deviation, minimum, maximum and rms of each row along the last axis.
///
///   mean = sum v / N     std = sqrt(sum (v - mean)² / N)     rms = sqrt(sum v² / N)
/// In one pass over d = v - v[0] in float64: std² = (sum d² - (sum d)² / N) / N. With a shift by a value of the row the
/// cancellation is bounded by N (T. F. Chan, G. H. Golub, R. J. LeVeque, The American Statistician 37, 1983), so
/// std stays accurate when the mean is a million times as large.
/// With order = 4 a second pass, over t = (v - mean) / std in float64, adds, as scipy.stats.skew and kurtosis do:
///   skewness = m3 / m2^1.5     excess kurtosis = m4 / m2² - 3     with mk = sum (v - mean)^k / N
/// Both are NaN where m2 ≤ (1e-15 · mean)², as of a row of equal values.
///
/// Input: f32, cf32, f16, bf16 or f64; the last extent N may be "max N" when it is the leading one.
/// Output: f32 [..., 5] for real input, [..., 3, 5] for cf32 with the rows I, Q and |z|; the five are in the order
/// above, and seven with order = 4. If "max N" is the last axis, the output does not have it.
/// Parameters:
///   axis   along_axis.hpp
///   order  2 (default) or 4: the highest power
/// A NaN makes all results of its row NaN. An infinity makes all but min and max of its row not finite (which of
/// infinity and NaN is not specified).
struct moments_settings {
  bool complex_input = false;
  std::int64_t views = 1;    ///< 1, or 3 for I, Q, |z|
  std::int64_t results = 5;  ///< of one view of one row: 5 or 7
  frame_rows rows;           ///< of the input
  tensor_spec input;
  tensor_spec output;
};

/// Variance at or below this share of the mean's square is taken for rounding, as by scipy.
inline constexpr double least_variance = 1e-30;

/// Throws parameter_error.
[[nodiscard]] inline moments_settings parse_moments(const parameters& settings, const tensor_spec& input) {
  using enum element_type;
  require_element_type("moments", input, {f32, cf32, f16, bf16, f64});
  const std::int64_t order = settings.integer("order", 2);
  if (order != 2 && order != 4) {
    throw parameter_error("order", "must be 2, or 4 for skewness and kurtosis too, not " + std::to_string(order));
  }
  moments_settings parsed;
  parsed.results = order == 4 ? 7 : 5;
  parsed.complex_input = is_complex(input.type);
  parsed.views = parsed.complex_input ? 3 : 1;
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::f32;
  parsed.output.variable = input.variable && !parsed.rows.has_variable_length();
  parsed.output.shape.pop_back();
  if (parsed.complex_input) {
    parsed.output.shape.push_back(parsed.views);
  }
  parsed.output.shape.push_back(parsed.results);
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_moments_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_moments_cuda(const operation_request& request);

}  // namespace penstock
