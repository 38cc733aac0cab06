#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
///   by         list of numbers, finite in f32: a constant array in place of the further inputs; the input is one then
///   by_imag    list of as many: its imaginary part; makes it and the output complex
///   by_shape   list of its extents, default its length; as in numpy it is laid against the last extents of the frame,
///              and each of its extents is that of the frame or 1
/// NaN and infinities go through the formula.
struct fold_settings {
  enum class combination { sum, product, conjugate_product };

  combination combine = combination::sum;
  bool complex_input = false;
  tensor_spec output;  ///< the spec of each input too, but where there is a constant
  /// `by`: element i of a batch meets element i / run % (its elements). (re, im) pairs where it is complex.
  std::vector<float> constant{};
  bool complex_constant = false;
  std::int64_t run = 1;

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

/// The numbers of `by` as they lie in a frame: [first, …] of its trailing extents, without those of 1 at either end.
/// Throws parameter_error.
inline void lay_constant(const parameters& settings, const tensor_spec& input, fold_settings& parsed) {
  const auto parts = static_cast<std::size_t>(parsed.complex_constant ? 2 : 1);
  const auto count = static_cast<std::int64_t>(parsed.constant.size() / parts);
  std::vector<std::int64_t> extents;
  for (const double extent :
       settings.has("by_shape") ? settings.numbers("by_shape") : std::vector<double>{static_cast<double>(count)}) {
    extents.push_back(static_cast<std::int64_t>(std::clamp(extent, 0.0, 9e15)));
    if (extent < 1.0 || static_cast<double>(extents.back()) != extent) {
      throw parameter_error("by_shape", "must have whole numbers from 1 on");
    }
  }
  const auto refuse = [&] {
    const tensor_spec shown{.type = parsed.complex_constant ? element_type::cf32 : element_type::f32, .shape = extents};
    throw parameter_error("by", "is " + shown.text() + ", whose extents must be 1 or the last ones of " + input.text());
  };
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) {
    product = extent > count ? 0 : std::min(product * extent, count + 1);
  }
  if (product != count) {
    throw parameter_error("by_shape", "does not stand for the " + std::to_string(count) + " numbers of 'by'");
  }
  while (extents.size() > 1 && extents.front() == 1) {
    extents.erase(extents.begin());
  }
  const std::size_t axes = input.shape.size();
  if (extents.size() > axes) {
    refuse();
  }
  const std::size_t before = axes - extents.size();
  std::size_t end = extents.size();
  while (end > 0 && extents[end - 1] == 1) {
    parsed.run *= input.shape[before + --end];
  }
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const bool is_variable = input.variable && before + axis == 0;
    if (extents[axis] != 1 && (is_variable || extents[axis] != input.shape[before + axis])) {
      refuse();
    }
  }
  if (end == 0) {  // one number for all
    parsed.run = 1;
    return;
  }
  // Repeats what lies along an axis of 1 between others, from the last axis to the first.
  std::vector<float> laid = std::move(parsed.constant);
  std::size_t inner = parts;
  for (std::size_t axis = end; axis-- > 0;) {
    const auto wanted = static_cast<std::size_t>(input.shape[before + axis]);
    if (extents[axis] == 1) {
      std::vector<float> repeated;
      repeated.reserve(laid.size() * wanted);
      for (std::size_t first = 0; first < laid.size(); first += inner) {
        for (std::size_t time = 0; time < wanted; ++time) {
          repeated.insert(repeated.end(), laid.begin() + static_cast<std::ptrdiff_t>(first),
                          laid.begin() + static_cast<std::ptrdiff_t>(first + inner));
        }
      }
      laid = std::move(repeated);
    }
    inner *= wanted;
  }
  parsed.constant = std::move(laid);
}

/// Throws parameter_error.
[[nodiscard]] inline fold_settings parse_product_by(const parameters& settings, const tensor_spec& input) {
  require_element_type("multiply", input, {element_type::f32, element_type::cf32});
  const std::vector<double> real = settings.numbers("by");
  const std::vector<double> imaginary =
      settings.has("by_imag") ? settings.numbers("by_imag") : std::vector<double>(real.size(), 0.0);
  if (real.empty()) {
    throw parameter_error("by", "must have at least one number");
  }
  if (imaginary.size() != real.size()) {
    throw parameter_error("by_imag", "must have as many numbers as 'by', " + std::to_string(real.size()) + ", not " +
                                         std::to_string(imaginary.size()));
  }
  fold_settings parsed{.combine = fold_settings::combination::product,
                       .complex_input = is_complex(input.type),
                       .output = input,
                       .constant = {},
                       .complex_constant = settings.has("by_imag")};
  const bool conjugate = settings.flag("conjugate", false);
  if (conjugate && !parsed.complex_constant) {
    throw parameter_error("conjugate", "is for a complex constant, not for a real one");
  }
  for (std::size_t place = 0; place < real.size(); ++place) {
    parsed.constant.push_back(parse_f32("by", real[place]));
    if (parsed.complex_constant) {
      parsed.constant.push_back(parse_f32("by_imag", conjugate ? -imaginary[place] : imaginary[place]));
    }
  }
  if (parsed.complex_constant) {
    parsed.output.type = element_type::cf32;
  }
  lay_constant(settings, input, parsed);
  return parsed;
}

/// Throws parameter_error.
[[nodiscard]] inline fold_settings parse_multiply(const parameters& settings, std::span<const tensor_spec> inputs) {
  if (settings.has("by")) {
    return parse_product_by(settings, sole_input("multiply", inputs));
  }
  for (const char* const key : {"by_imag", "by_shape"}) {
    if (settings.has(key)) {
      throw parameter_error(key, "is for a stage that has 'by'");
    }
  }
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
