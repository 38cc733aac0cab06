#include "kernels/affine.hpp"

#include <cmath>
#include <limits>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

float parse_coefficient(const parameters& settings, const char* key, double otherwise) {
  const double number = settings.number(key, otherwise);
  if (!(std::abs(number) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    throw parameter_error(key, "must be a finite number within f32's range");
  }
  return static_cast<float>(number);
}

}  // namespace

affine_settings parse_affine(const parameters& settings, const tensor_spec& input) {
  require_element_type("affine", input, {element_type::f32, element_type::cf32});
  return {.complex_input = is_complex(input.type),
          .a = parse_coefficient(settings, "a", 1.0),
          .b = parse_coefficient(settings, "b", 0.0),
          .input = input,
          .output = input};
}

tensor_spec infer_affine(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_affine(settings, sole_input("affine", inputs)).output;
}

}  // namespace penstock
