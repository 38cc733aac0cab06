#include "kernels/moving_zscore.hpp"

#include <cmath>
#include <string>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

double parse_positive(const parameters& settings, const char* key, double otherwise) {
  const double number = settings.number(key, otherwise);
  if (!(number > 0.0) || std::isinf(number)) {
    throw parameter_error(key, "must be a finite number above 0");
  }
  return number;
}

std::int64_t parse_window(const parameters& settings) {
  if (!settings.has("window")) {
    throw parameter_error("window", "is missing");
  }
  const std::int64_t window = settings.integer("window", 0);
  if (window < 2 || window > 65536) {
    throw parameter_error("window", "must be an integer from 2 to 65536, not " + std::to_string(window));
  }
  return window;
}

std::int32_t parse_gap(const parameters& settings) {
  const std::int64_t gap = settings.integer("gap", 0);
  if (gap < 0 || gap > 65536) {
    throw parameter_error("gap", "must be an integer from 0 to 65536, not " + std::to_string(gap));
  }
  return static_cast<std::int32_t>(gap);
}

bool parse_flags(const parameters& settings) {
  const std::string output = settings.text("output", "score");
  if (output != "score" && output != "flags") {
    throw parameter_error("output", "must be \"score\" or \"flags\", not \"" + output + "\"");
  }
  if (output == "score" && settings.has("threshold")) {
    throw parameter_error("threshold", "is only for output = \"flags\"");
  }
  return output == "flags";
}

}  // namespace

moving_zscore_settings parse_moving_zscore(const parameters& settings, const tensor_spec& input) {
  require_element_type("moving_zscore", input, {element_type::f32});
  moving_zscore_settings parsed;
  parsed.window = {.length = parse_window(settings), .with_current = false, .whole_frames = false, .input = input};
  if (settings.has("floor")) {
    parsed.floor = {.least = parse_positive(settings, "floor", 0.0), .relative = 0.0};
  }
  parsed.gap = parse_gap(settings);
  if (settings.has("hold")) {
    parsed.hold = parse_positive(settings, "hold", 0.0);
  }
  parsed.flags = parse_flags(settings);
  parsed.threshold = parse_positive(settings, "threshold", 4.0);
  parsed.output = input;
  parsed.output.type = parsed.flags ? element_type::u8 : element_type::f32;
  return parsed;
}

tensor_spec infer_moving_zscore(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_moving_zscore(settings, sole_input("moving_zscore", inputs)).output;
}

session_traits moving_zscore_session(const parameters& /*settings*/, std::span<const tensor_spec> /*inputs*/) {
  return {};
}

}  // namespace penstock
