#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/along_axis.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// reduce: one number for each row along an axis, which the output does not have any longer.
///
///   mean   sum x / N            max, min
///   sum    sum x                power  sum |x|² / N
///   rms    sqrt(sum |x|² / N)
/// Sums are in float64.
///
/// Input: f32 or cf32; the axis may be "max N".
/// Output: f32, and cf32 for mean and sum of cf32; the input's other extents, or [1] where it has no other. With the
/// leading axis goes its "max N".
/// Parameters:
///   function  "mean" (default) | "sum" | "max" | "min" | "rms" | "power"; cf32 has no max and no min
///   axis      integer, default −1; negative ones count from the last, −1
/// Within 1e-6 of the largest |x| of the row (sum: of the sum of |x|, power: of the largest |x|²); max and min are
/// exact. A NaN makes the result of its row NaN, an infinity those not finite that it contributes to.
struct reduce_settings {
  enum class function { mean, sum, max, min, rms, power };

  function computes = function::mean;
  bool complex_input = false;
  axis_rows rows;
  tensor_spec output;

  /// Whether it sums |x|².
  [[nodiscard]] bool squares() const noexcept { return computes == function::rms || computes == function::power; }
  /// Floats of a result.
  [[nodiscard]] std::int64_t result_parts() const noexcept { return is_complex(output.type) ? 2 : 1; }
};

/// Throws parameter_error.
[[nodiscard]] inline reduce_settings parse_reduce(const parameters& settings, const tensor_spec& input) {
  using function = reduce_settings::function;
  require_element_type("reduce", input, {element_type::f32, element_type::cf32});
  reduce_settings parsed;
  parsed.computes =
      static_cast<function>(parse_choice(settings, "function", {"mean", "sum", "max", "min", "rms", "power"}));
  parsed.complex_input = is_complex(input.type);
  if (parsed.complex_input && (parsed.computes == function::max || parsed.computes == function::min)) {
    throw parameter_error("function", "must be \"mean\", \"sum\", \"rms\" or \"power\" for " + input.text() +
                                          "; a 'magnitude' stage before it makes real values");
  }
  parsed.rows = {input, parse_axis(settings, input, -1)};
  parsed.output = input;
  parsed.output.type = parsed.squares() ? element_type::f32 : input.type;
  parsed.output.variable = input.variable && parsed.rows.axis != 0;
  parsed.output.shape.erase(parsed.output.shape.begin() + static_cast<std::ptrdiff_t>(parsed.rows.axis));
  if (parsed.output.shape.empty()) {
    parsed.output.shape.push_back(1);
  }
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_reduce_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_reduce_cuda(const operation_request& request);

}  // namespace penstock
