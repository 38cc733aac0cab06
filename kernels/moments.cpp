#include "kernels/moments.hpp"

#include "kernels/operation_input.hpp"

namespace penstock {

moments_settings parse_moments(const parameters& /*settings*/, const tensor_spec& input) {
  require_element_type("moments", input, {element_type::f32, element_type::cf32});
  moments_settings parsed;
  parsed.complex_input = is_complex(input.type);
  parsed.views = parsed.complex_input ? 3 : 1;
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::f32;
  parsed.output.variable = input.variable && !parsed.rows.has_variable_length();
  parsed.output.shape.pop_back();
  if (parsed.complex_input) {
    parsed.output.shape.push_back(parsed.views);
  }
  parsed.output.shape.push_back(moments_results);
  return parsed;
}

tensor_spec infer_moments(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_moments(settings, sole_input("moments", inputs)).output;
}

}  // namespace penstock
