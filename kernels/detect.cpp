#include "kernels/detect.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

float parse_threshold(const char* key, double threshold) {
  if (!(std::abs(threshold) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    throw parameter_error(key, "must be a finite number within f32's range");
  }
  return static_cast<float>(threshold);
}

std::int64_t parse_most_events(const parameters& settings) {
  const std::int64_t most = settings.integer("max_events", 64);
  if (most < 1 || most > detect_most_events) {
    throw parameter_error("max_events", "must be from 1 to 65536, not " + std::to_string(most));
  }
  return most;
}

}  // namespace

detect_settings parse_detect(const parameters& settings, const tensor_spec& input) {
  require_element_type("detect", input, {element_type::f32});
  if (input.shape.back() > detect_longest_row) {
    throw parameter_error("from", "'detect' takes rows of at most 16777216 samples, not " + input.text());
  }
  detect_settings parsed;
  const double high = settings.number("high");
  const double low = settings.number("low", high);
  parsed.high = parse_threshold("high", high);
  parsed.low = parse_threshold("low", low);
  if (low > high) {
    throw parameter_error("low", "must be at most 'high'");
  }
  parsed.max_events = parse_most_events(settings);
  parsed.rows = frame_rows{input};
  parsed.output = input;
  parsed.output.variable = input.variable && !parsed.rows.has_variable_length();
  parsed.output.shape.back() = parsed.max_events + 1;
  parsed.output.shape.push_back(2);
  return parsed;
}

tensor_spec infer_detect(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_detect(settings, sole_input("detect", inputs)).output;
}

}  // namespace penstock
