#include "kernels/window.hpp"

#include <cstddef>

#include "kernels/operation_input.hpp"
#include "kernels/window_function.hpp"

namespace penstock {

window_settings parse_window(const parameters& settings, const tensor_spec& input) {
  require_element_type("window", input, {element_type::f32, element_type::cf32});
  require_fixed_last_axis("window", input);
  window_settings parsed{.coefficients = {}, .rows = frame_rows{input}, .input = input, .output = input};
  for (const double w : window_coefficients(window_function_of(settings, "window"), input.shape.back())) {
    parsed.coefficients.push_back(static_cast<float>(w));
  }
  return parsed;
}

tensor_spec infer_window(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_window(settings, sole_input("window", inputs)).output;
}

}  // namespace penstock
