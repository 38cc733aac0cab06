#include "kernels/magnitude.hpp"

#include "kernels/operation_input.hpp"

namespace penstock {

magnitude_settings parse_magnitude(const parameters& settings, const tensor_spec& input) {
  require_element_type("magnitude", input, {element_type::cf32});
  magnitude_settings parsed{.squared = settings.flag("squared", false), .input = input, .output = input};
  parsed.output.type = element_type::f32;
  return parsed;
}

tensor_spec infer_magnitude(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_magnitude(settings, sole_input("magnitude", inputs)).output;
}

}  // namespace penstock
