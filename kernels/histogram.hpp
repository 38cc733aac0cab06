#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// histogram: how many values of each row along the last axis fall into each of 256 bins.
///
/// Bins, for I and Q alike:
///   u8, cu8    x                       i8, ci8    x + 128
///   i16, ci16  (x + 32768) >> 8        u16        x >> 8
///   i32        (x + 2^31) >> 24
///   f32, cf32, f16, bf16, f64
///              clip(floor((v - lo) · 256 / (hi - lo)), 0, 255), in float64 and in this order
/// With the default range, f32 that `convert` made of u8, i8 or i16 gives exactly the bins of the integers. (f32 made
/// of i32 has lost its low bits, so a value just below a bin's edge can count in the next one.)
///
/// Input: any type but i64 and bool; the last extent may be "max N" when it is the leading one.
/// Output: i32 [..., 256] for real input, [..., 2, 256] for complex, rows I and Q. If "max N" is the last
/// axis, the output does not have it.
/// Parameters:
///   range  [lo, hi], finite, lo < hi, in the unit of the values; default [-1, 1]. Only floating-point types have it.
///   axis   along_axis.hpp
/// A NaN is counted in no bin; infinities count in the first and the last one.
struct histogram_settings {
  element_type type = element_type::u8;
  std::int64_t parts = 1;  ///< 1, or 2 for I and Q
  double low = -1.0;
  double width = 2.0;  ///< hi - lo
  /// 256 / width when that is a power of two, so that multiplying by it gives exactly what · 256 / width does; else 0.
  double exact_scale = 128.0;
  frame_rows rows;  ///< of the input
  tensor_spec input;
  tensor_spec output;
};

inline constexpr std::int64_t histogram_bins = 256;

struct histogram_range {
  double low = -1.0;
  double width = 2.0;
};

[[nodiscard]] inline histogram_range parse_histogram_range(const parameters& settings, const tensor_spec& input) {
  if (!settings.has("range")) {
    return {};
  }
  if (!is_floating(input.type)) {
    throw parameter_error("range",
                          "is only for floating-point input; each bin of " + input.text() + " is fixed by its type");
  }
  const std::vector<double> limits = settings.numbers("range");
  if (limits.size() != 2 || !(limits[0] < limits[1]) || !std::isfinite(limits[1] - limits[0])) {
    throw parameter_error("range", "must be [lo, hi], two finite numbers, lo below hi");
  }
  return {limits[0], limits[1] - limits[0]};
}

/// 256 / width when width is a power of two (then nothing is rounded), else 0.
[[nodiscard]] inline double exact_histogram_scale(double width) noexcept {
  int exponent = 0;
  const bool power_of_two = std::frexp(width, &exponent) == 0.5;
  const double scale = 256.0 / width;
  return power_of_two && std::isnormal(scale) ? scale : 0.0;
}

/// Throws parameter_error.
[[nodiscard]] inline histogram_settings parse_histogram(const parameters& settings, const tensor_spec& input) {
  using enum element_type;
  require_element_type("histogram", input, {u8, i8, i16, i32, f32, cf32, cu8, ci8, ci16, u16, f16, bf16, f64});
  const histogram_range range = parse_histogram_range(settings, input);
  histogram_settings parsed;
  parsed.type = input.type;
  parsed.parts = is_complex(input.type) ? 2 : 1;
  parsed.low = range.low;
  parsed.width = range.width;
  parsed.exact_scale = exact_histogram_scale(range.width);
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::i32;
  parsed.output.variable = input.variable && !parsed.rows.has_variable_length();
  parsed.output.shape.pop_back();
  if (parsed.parts == 2) {
    parsed.output.shape.push_back(parsed.parts);
  }
  parsed.output.shape.push_back(histogram_bins);
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_histogram_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_histogram_cuda(const operation_request& request);

}  // namespace penstock
