#include "kernels/iir.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

[[noreturn]] void refuse_section(std::size_t index, const std::string& message) {
  throw parameter_error("sections", "section " + std::to_string(index) + " (counted from 0) " + message);
}

iir_section parse_section(std::span<const double> numbers, std::size_t index) {
  if (!std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); })) {
    refuse_section(index, "must be six finite numbers");
  }
  const double a0 = numbers[3];
  if (a0 == 0.0) {
    refuse_section(index, "has a0 = 0; its six numbers are b0 b1 b2 a0 a1 a2");
  }
  const iir_section section{numbers[0] / a0, numbers[1] / a0, numbers[2] / a0, numbers[4] / a0, numbers[5] / a0};
  for (const double scaled : {section.b0, section.b1, section.b2, section.a1, section.a2}) {
    if (!std::isfinite(scaled)) {
      refuse_section(index, "must stay finite when it is divided by its a0");
    }
  }
  if (std::abs(section.a2) >= 1.0 || std::abs(section.a1) >= 1.0 + section.a2) {
    refuse_section(index,
                   "is unstable: its poles must lie inside the unit circle, |a2| < 1 and |a1| < 1 + a2 with a0 = 1");
  }
  return section;
}

}  // namespace

iir_settings parse_iir(const parameters& settings, const tensor_spec& input) {
  require_element_type("iir", input, {element_type::f32, element_type::cf32});
  const std::vector<double> numbers = settings.numbers("sections");
  if (numbers.empty() || numbers.size() % 6 != 0 || numbers.size() > 6 * most_iir_sections) {
    throw parameter_error("sections", "must be 6 numbers (b0 b1 b2 a0 a1 a2) for each of 1 to " +
                                          std::to_string(most_iir_sections) + " sections, not " +
                                          std::to_string(numbers.size()));
  }
  iir_settings parsed;
  for (std::size_t index = 0; index < numbers.size() / 6; ++index) {
    parsed.sections.push_back(parse_section(std::span{numbers}.subspan(6 * index, 6), index));
  }
  parsed.complex_input = is_complex(input.type);
  parsed.lanes = input.elements() / input.shape.front() * (parsed.complex_input ? 2 : 1);
  parsed.input = input;
  return parsed;
}

tensor_spec infer_iir(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_iir(settings, sole_input("iir", inputs)).input;
}

session_traits iir_session(const parameters& /*settings*/, std::span<const tensor_spec> /*inputs*/) {
  return {};
}

}  // namespace penstock
