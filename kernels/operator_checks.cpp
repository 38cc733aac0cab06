#include "kernels/operator_checks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace penstock {
namespace {

[[noreturn]] void refuse_input(std::string_view operator_name, const std::string& message) {
  throw parameter_error("from", "'" + std::string{operator_name} + "' " + message);
}

/// "f32", "f32 or cf32", "u8, i8 or i16".
std::string alternatives(const std::vector<std::string>& words) {
  std::string written;
  std::size_t left = words.size();
  for (const std::string& word : words) {
    --left;
    written += word;
    written += left > 1 ? ", " : left == 1 ? " or " : "";
  }
  return written;
}

}  // namespace

const tensor_spec& sole_input(std::string_view operator_name, std::span<const tensor_spec> inputs) {
  if (inputs.size() != 1) {
    refuse_input(operator_name, "takes exactly one input, not " + std::to_string(inputs.size()));
  }
  return inputs.front();
}

void require_several_inputs(std::string_view operator_name, std::span<const tensor_spec> inputs, std::size_t most) {
  if (inputs.size() < 2) {
    refuse_input(operator_name, "takes two inputs or more, not " + std::to_string(inputs.size()));
  }
  if (inputs.size() > most) {
    refuse_input(operator_name, "takes at most " + std::to_string(most) + " inputs, not " +
                                    std::to_string(inputs.size()) + "; a second stage can take the others");
  }
}

void require_equal_inputs(std::string_view operator_name, std::span<const tensor_spec> inputs) {
  for (const tensor_spec& input : inputs) {
    if (input != inputs.front()) {
      refuse_input(operator_name, "takes inputs of one element type and one shape, not " + inputs.front().text() +
                                      " and " + input.text());
    }
  }
}

void require_element_type(std::string_view operator_name, const tensor_spec& input,
                          std::initializer_list<element_type> allowed) {
  if (std::find(allowed.begin(), allowed.end(), input.type) != allowed.end()) {
    return;
  }
  std::vector<std::string> names;
  for (const element_type type : allowed) {
    names.emplace_back(name_of(type));
  }
  const bool convertible = input.type != element_type::f32 && input.type != element_type::cf32;
  refuse_input(operator_name, "takes " + alternatives(names) + ", not " + input.text() +
                                  (convertible ? "; a 'convert' stage before it makes that" : ""));
}

void require_fixed_last_axis(std::string_view operator_name, const tensor_spec& input) {
  if (frame_rows{input}.has_variable_length()) {
    refuse_input(operator_name, "works along an axis that must be fixed, not that of " + input.text());
  }
}

std::size_t parse_choice(const parameters& settings, std::string_view key,
                         std::initializer_list<std::string_view> words) {
  const std::string chosen = settings.text(key, *words.begin());
  const auto* const found = std::find(words.begin(), words.end(), chosen);
  if (found == words.end()) {
    std::vector<std::string> quoted;
    for (const std::string_view word : words) {
      quoted.push_back("\"" + std::string{word} + "\"");
    }
    throw parameter_error(std::string{key}, "must be " + alternatives(quoted) + ", not \"" + chosen + "\"");
  }
  return static_cast<std::size_t>(found - words.begin());
}

std::int64_t parse_integer(const parameters& settings, std::string_view key, std::int64_t least, std::int64_t most,
                           std::optional<std::int64_t> absent) {
  if (!absent && !settings.has(key)) {
    throw parameter_error(std::string{key}, "is missing");
  }
  const std::int64_t number = settings.integer(key, absent.value_or(least));
  if (number < least || number > most) {
    throw parameter_error(std::string{key}, "must be an integer from " + std::to_string(least) + " to " +
                                                std::to_string(most) + ", not " + std::to_string(number));
  }
  return number;
}

std::size_t parse_axis(const parameters& settings, const tensor_spec& input, std::int64_t absent) {
  const std::int64_t axis = settings.integer("axis", absent);
  const auto axes = static_cast<std::int64_t>(input.shape.size());
  if (axis < -axes || axis >= axes) {
    throw parameter_error("axis", "must be an axis of " + input.text() + ", " + std::to_string(-axes) + " to " +
                                      std::to_string(axes - 1) + ", not " + std::to_string(axis));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

bool is_finite_f32(double number) noexcept {
  return std::abs(number) <= static_cast<double>(std::numeric_limits<float>::max());
}

float parse_f32(std::string_view key, double number) {
  if (!is_finite_f32(number)) {
    throw parameter_error(std::string{key}, "must be a finite number within f32's range");
  }
  return static_cast<float>(number);
}

}  // namespace penstock
