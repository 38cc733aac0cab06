#include "kernels/power_spectrum.hpp"

#include <string>

#include "kernels/operation_input.hpp"
#include "kernels/window_function.hpp"

namespace penstock {
namespace {

bool parse_decibels(const parameters& settings) {
  const std::string scale = settings.text("scale", "power");
  if (scale != "power" && scale != "db") {
    throw parameter_error("scale", "must be \"power\" or \"db\", not \"" + scale + "\"");
  }
  return scale == "db";
}

float parse_floor(const parameters& settings, bool decibels) {
  if (settings.has("floor") && !decibels) {
    throw parameter_error("floor", "is for scale \"db\" only");
  }
  const double floor = settings.number("floor", -200.0);
  if (!(floor >= -700.0 && floor <= 700.0)) {
    throw parameter_error("floor", "must be from -700 to 700 dB");
  }
  return static_cast<float>(floor);
}

void require_length(const tensor_spec& input) {
  require_fixed_last_axis("power_spectrum", input);
  if (input.shape.back() < 2) {
    throw parameter_error("from", "'power_spectrum' takes rows of at least 2 elements, not " + input.text());
  }
}

}  // namespace

power_spectrum_settings parse_power_spectrum(const parameters& settings, const tensor_spec& input) {
  require_element_type("power_spectrum", input, {element_type::f32, element_type::cf32});
  require_length(input);
  power_spectrum_settings parsed;
  parsed.complex_input = is_complex(input.type);
  parsed.decibels = parse_decibels(settings);
  parsed.length = input.shape.back();
  parsed.bins = parsed.complex_input ? parsed.length : parsed.length / 2 + 1;
  double sum = 0.0;
  for (const double w : window_coefficients(window_function_of(settings, "window"), parsed.length)) {
    parsed.coefficients.push_back(static_cast<float>(w));
    sum += w;
  }
  parsed.power_scale = 1.0 / (sum * sum);
  parsed.floor = parse_floor(settings, parsed.decibels);
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::f32;
  parsed.output.shape.back() = parsed.bins;
  return parsed;
}

tensor_spec infer_power_spectrum(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_power_spectrum(settings, sole_input("power_spectrum", inputs)).output;
}

}  // namespace penstock
