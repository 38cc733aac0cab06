#pragma once

#include <memory>
#include <span>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// affine: y = a·x + b, in single precision. On cf32, a scales both parts and b is added to the real part.
///
/// Input: f32 or cf32, any shape. Output: the input's spec.
/// Parameters:
///   a  number, finite in f32, default 1
///   b  number, finite in f32, default 0, in the unit of the output
/// NaN and infinities go through the formula.
struct affine_settings {
  bool complex_input = false;
  float a = 1.0F;
  float b = 0.0F;
  tensor_spec input;
  tensor_spec output;
};

/// Throws parameter_error.
[[nodiscard]] inline affine_settings parse_affine(const parameters& settings, const tensor_spec& input) {
  require_element_type("affine", input, {element_type::f32, element_type::cf32});
  return {.complex_input = is_complex(input.type),
          .a = parse_f32("a", settings.number("a", 1.0)),
          .b = parse_f32("b", settings.number("b", 0.0)),
          .input = input,
          .output = input};
}

[[nodiscard]] std::unique_ptr<operation> make_affine_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_affine_cuda(const operation_request& request);

}  // namespace penstock
