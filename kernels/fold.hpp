#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// add and multiply: the elements of two or more inputs, folded from the first to the last.
///
///   add       y = x₀ + x₁ + x₂ + …
///   multiply  y = x₀ · x₁ · x₂ · …, or x₀ · conj(x₁) · conj(x₂) · …
/// In single precision, each step rounded (a complex product's parts within 3e-7 of its absolute value).
///
/// Inputs: 2 … 32 of one spec, f32 or cf32, any shape. Output: that spec.
/// Parameters, for multiply only:
///   conjugate  boolean, default false; cf32 only: conjugates the inputs after the first
/// NaN and infinities go through the formula.
struct fold_settings {
  enum class combination { sum, product, conjugate_product };

  combination combine = combination::sum;
  bool complex_input = false;
  tensor_spec output;  ///< the spec of each input too

  /// Elements in all frames of the batch together.
  [[nodiscard]] std::int64_t count(const batch_extent& extent) const noexcept {
    return extent.frames * output.elements(extent.leading);
  }
};

/// Maximum number of inputs.
inline constexpr std::size_t max_fold_inputs = 32;

/// Throws parameter_error.
[[nodiscard]] inline fold_settings parse_fold(std::string_view operator_name, std::span<const tensor_spec> inputs) {
  require_several_inputs(operator_name, inputs, max_fold_inputs);
  require_element_type(operator_name, inputs.front(), {element_type::f32, element_type::cf32});
  require_equal_inputs(operator_name, inputs);
  return {.combine = fold_settings::combination::sum,
          .complex_input = is_complex(inputs.front().type),
          .output = inputs.front()};
}

/// Throws parameter_error.
[[nodiscard]] inline fold_settings parse_add(const parameters& /*settings*/, std::span<const tensor_spec> inputs) {
  return parse_fold("add", inputs);
}

/// Throws parameter_error.
[[nodiscard]] inline fold_settings parse_multiply(const parameters& settings, std::span<const tensor_spec> inputs) {
  fold_settings parsed = parse_fold("multiply", inputs);
  const bool conjugate = settings.flag("conjugate", false);
  if (conjugate && !parsed.complex_input) {
    throw parameter_error("conjugate", "is for cf32 inputs, not for " + parsed.output.text());
  }
  parsed.combine = conjugate ? fold_settings::combination::conjugate_product : fold_settings::combination::product;
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_add_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_multiply_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_add_cuda(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_multiply_cuda(const operation_request& request);

}  // namespace penstock
