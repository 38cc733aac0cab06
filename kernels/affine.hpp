#pragma once

#include <memory>
#include <span>

#include "kernels/operation.hpp"

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
[[nodiscard]] affine_settings parse_affine(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_affine(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_affine_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_affine_cuda(const operation_request& request);

}  // namespace penstock
