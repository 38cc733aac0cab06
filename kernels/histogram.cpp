#include "kernels/histogram.hpp"

#include <cmath>
#include <vector>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

struct value_range {
  double low = -1.0;
  double width = 2.0;
};

value_range parse_range(const parameters& settings, const tensor_spec& input) {
  if (!settings.has("range")) {
    return {};
  }
  if (!is_floating(input.type)) {
    throw parameter_error("range", "is only for f32 and cf32; each bin of " + input.text() + " is fixed by its type");
  }
  const std::vector<double> limits = settings.numbers("range");
  if (limits.size() != 2 || !(limits[0] < limits[1]) || !std::isfinite(limits[1] - limits[0])) {
    throw parameter_error("range", "must be [lo, hi], two finite numbers, lo below hi");
  }
  return {limits[0], limits[1] - limits[0]};
}

/// 256 / width when width is a power of two (then nothing is rounded), else 0.
double exact_scale_of(double width) noexcept {
  int exponent = 0;
  const bool power_of_two = std::frexp(width, &exponent) == 0.5;
  const double scale = 256.0 / width;
  return power_of_two && std::isnormal(scale) ? scale : 0.0;
}

}  // namespace

histogram_settings parse_histogram(const parameters& settings, const tensor_spec& input) {
  const value_range range = parse_range(settings, input);
  histogram_settings parsed;
  parsed.type = input.type;
  parsed.parts = is_complex(input.type) ? 2 : 1;
  parsed.low = range.low;
  parsed.width = range.width;
  parsed.exact_scale = exact_scale_of(range.width);
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::i32;
  parsed.output.variable = input.variable && !parsed.rows.has_variable_length();
  parsed.output.shape.pop_back();
  if (parsed.parts == 2) {
    parsed.output.shape.push_back(parsed.parts);
  }
  parsed.output.shape.push_back(histogram_bins);
  return parsed;
}

tensor_spec infer_histogram(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_histogram(settings, sole_input("histogram", inputs)).output;
}

}  // namespace penstock
