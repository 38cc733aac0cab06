#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/operation.hpp"

namespace penstock {

/// add and multiply: the elements of two or more inputs, folded from the first to the last.
///
///   add       y = x₀ + x₁ + x₂ + …
///   multiply  y = x₀ · x₁ · x₂ · …, or x₀ · conj(x₁) · conj(x₂) · …
/// In single precision, each step rounded (a complex product's parts within 3e-7 of its absolute value).
///
/// Inputs: 2 … 32 of one spec, f32 or cf32, any shape. Output: that spec.
/// Parameters, of multiply alone:
///   conjugate  boolean, default false; cf32 only: conjugates the inputs after the first
/// NaN and infinities go through the formula.
struct fold_settings {
  enum class combination { sum, product, conjugate_product };

  combination combine = combination::sum;
  bool complex_input = false;
  tensor_spec spec;  ///< of each input and of the output

  /// Elements in all frames of the batch together.
  [[nodiscard]] std::int64_t count(const batch_extent& extent) const noexcept {
    return extent.frames * spec.elements(extent.leading);
  }
};

/// The most inputs that a stage folds.
inline constexpr std::size_t fold_most_inputs = 32;

/// Throws parameter_error.
[[nodiscard]] fold_settings parse_add(std::span<const tensor_spec> inputs);
[[nodiscard]] fold_settings parse_multiply(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] tensor_spec infer_add(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] tensor_spec infer_multiply(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_add_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_multiply_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_add_cuda(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_multiply_cuda(const operation_request& request);

}  // namespace penstock
