#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// affine: y = a·x + b, in single precision; of f64 in double precision, of f16 and bf16 rounded once more. On cf32, a
/// scales both parts and b is added to the real part.
///
/// Input: f32, cf32, f16, bf16 or f64, any shape. Output: the input's spec.
/// Parameters:
///   a  number, finite in f32 (f64 for f64 input), default 1; tunable
///   b  number, finite in f32 (f64 for f64 input), default 0, in the unit of the output; tunable
/// NaN and infinities go through the formula.
struct affine_settings {
  bool complex_input = false;
  double a = 1.0;  ///< finite in f32, unless the input is f64
  double b = 0.0;
  tensor_spec input;
  tensor_spec output;
};

/// As precise as the operator computes. Throws parameter_error.
[[nodiscard]] inline double parse_affine_number(std::string_view key, double number, element_type type) {
  if (type != element_type::f64) {
    return static_cast<double>(parse_f32(key, number));
  }
  if (!std::isfinite(number)) {
    throw parameter_error(std::string{key}, "must be a finite number");
  }
  return number;
}

/// Throws parameter_error.
[[nodiscard]] inline affine_settings parse_affine(const parameters& settings, const tensor_spec& input) {
  using enum element_type;
  require_element_type("affine", input, {f32, cf32, f16, bf16, f64});
  return {.complex_input = is_complex(input.type),
          .a = parse_affine_number("a", settings.number("a", 1.0), input.type),
          .b = parse_affine_number("b", settings.number("b", 0.0), input.type),
          .input = input,
          .output = input};
}

/// Throws parameter_error.
[[nodiscard]] inline std::vector<tunable_number> affine_numbers(const parameters& settings,
                                                                std::span<const tensor_spec> inputs) {
  static_cast<void>(parse_affine(settings, inputs.front()));
  return {{"a", settings.number("a", 1.0)}, {"b", settings.number("b", 0.0)}};
}

[[nodiscard]] std::unique_ptr<operation> make_affine_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_affine_cuda(const operation_request& request);

}  // namespace penstock
