#include "kernels/correlate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

std::vector<double> parse_coefficients(const parameters& settings, const char* key) {
  std::vector<double> numbers = settings.numbers(key);
  if (numbers.empty()) {
    throw parameter_error(key, "must have at least one number");
  }
  for (const double number : numbers) {
    if (!(std::abs(number) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      throw parameter_error(key, "must hold finite numbers within f32's range");
    }
  }
  return numbers;
}

void parse_template(const parameters& settings, correlate_settings& into) {
  const std::vector<double> real = parse_coefficients(settings, "template");
  into.complex_template = settings.has("template_imag");
  const std::vector<double> imaginary =
      into.complex_template ? parse_coefficients(settings, "template_imag") : std::vector<double>{};
  if (into.complex_template && imaginary.size() != real.size()) {
    throw parameter_error("template_imag", "must have as many numbers as 'template', " + std::to_string(real.size()) +
                                               ", not " + std::to_string(imaginary.size()));
  }
  into.template_length = static_cast<std::int64_t>(real.size());
  for (std::size_t n = 0; n < real.size(); ++n) {
    into.coefficients.push_back(static_cast<float>(real[n]));
    if (into.complex_template) {
      into.coefficients.push_back(static_cast<float>(imaginary[n]));
    }
  }
}

void take_template_input(const tensor_spec& signal, const tensor_spec& given, correlate_settings& into) {
  require_element_type("correlate", given, {element_type::f32, element_type::cf32});
  require_fixed_last_axis("correlate", given);
  const bool fits = given.variable == signal.variable && given.shape.size() == signal.shape.size() &&
                    std::equal(given.shape.begin(), given.shape.end() - 1, signal.shape.begin());
  if (given.shape.size() != 1 && !fits) {
    throw parameter_error("from",
                          "'correlate' takes templates of one dimension or of the signal's leading extents, "
                          "not " +
                              given.text() + " for " + signal.text());
  }
  into.complex_template = is_complex(given.type);
  into.template_length = given.shape.back();
  into.template_a_row = given.shape.size() != 1;
}

void choose_results(const parameters& settings, correlate_settings& into) {
  const std::string mode = settings.text("mode", "full");
  const std::int64_t n = into.length;
  const std::int64_t m = into.template_length;
  if (mode == "full") {
    into.first = 0;
    into.results = n + m - 1;
  } else if (mode == "same") {
    into.first = (m - 1) / 2;
    into.results = n;
  } else if (mode == "valid") {
    into.first = into.terms() - 1;
    into.results = std::abs(n - m) + 1;
  } else {
    throw parameter_error("mode", "must be \"full\", \"same\" or \"valid\", not \"" + mode + "\"");
  }
}

void require_one_template(const parameters& settings, std::size_t inputs) {
  if (inputs != 1 && inputs != 2) {
    throw parameter_error(
        "from", "'correlate' takes a signal, or a signal and its templates, not " + std::to_string(inputs) + " inputs");
  }
  if (inputs == 1 && !settings.has("template")) {
    throw parameter_error("template", "is missing; a second input can give the templates instead");
  }
  for (const char* const key : {"template", "template_imag"}) {
    if (inputs == 2 && settings.has(key)) {
      throw parameter_error(key, "is not for a stage whose second input gives the templates");
    }
  }
}

}  // namespace

correlate_settings parse_correlate(const parameters& settings, std::span<const tensor_spec> inputs) {
  require_one_template(settings, inputs.size());
  const tensor_spec& signal = inputs.front();
  require_element_type("correlate", signal, {element_type::f32, element_type::cf32});
  require_fixed_last_axis("correlate", signal);
  correlate_settings parsed;
  parsed.complex_signal = is_complex(signal.type);
  parsed.length = signal.shape.back();
  parsed.rows = frame_rows{signal};
  if (inputs.size() == 1) {
    parse_template(settings, parsed);
  } else {
    take_template_input(signal, inputs[1], parsed);
  }
  choose_results(settings, parsed);
  parsed.method = parse_sum_method(settings);
  parsed.output = signal;
  parsed.output.type = parsed.complex_output() ? element_type::cf32 : element_type::f32;
  parsed.output.shape.back() = parsed.results;
  return parsed;
}

tensor_spec infer_correlate(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_correlate(settings, inputs).output;
}

}  // namespace penstock
