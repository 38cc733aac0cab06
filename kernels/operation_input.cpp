#include "kernels/operation_input.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "kernels/frame_rows.hpp"

namespace penstock {
namespace {

[[noreturn]] void refuse_input(std::string_view operator_name, const std::string& message) {
  throw parameter_error("from", "'" + std::string{operator_name} + "' " + message);
}

/// "f32", "f32 or cf32", "u8, i8 or i16".
std::string choice_text(std::initializer_list<element_type> types) {
  std::string written;
  std::size_t left = types.size();
  for (const element_type type : types) {
    --left;
    written += name_of(type);
    written += left > 1 ? ", " : left == 1 ? " or " : "";
  }
  return written;
}

}  // namespace

sum_method parse_sum_method(const parameters& settings) {
  const std::string method = settings.text("method", "auto");
  if (method == "direct") {
    return sum_method::direct;
  }
  if (method == "fft") {
    return sum_method::fft;
  }
  if (method != "auto") {
    throw parameter_error("method", "must be \"auto\", \"direct\" or \"fft\", not \"" + method + "\"");
  }
  return sum_method::automatic;
}

const tensor_spec& sole_input(std::string_view operator_name, std::span<const tensor_spec> inputs) {
  if (inputs.size() != 1) {
    refuse_input(operator_name, "takes exactly one input, not " + std::to_string(inputs.size()));
  }
  return inputs.front();
}

void require_element_type(std::string_view operator_name, const tensor_spec& input,
                          std::initializer_list<element_type> allowed) {
  if (std::find(allowed.begin(), allowed.end(), input.type) == allowed.end()) {
    const bool integers = !is_floating(input.type);
    refuse_input(operator_name, "takes " + choice_text(allowed) + ", not " + input.text() +
                                    (integers ? "; a 'convert' stage before it makes that" : ""));
  }
}

void require_fixed_last_axis(std::string_view operator_name, const tensor_spec& input) {
  if (frame_rows{input}.has_variable_length()) {
    refuse_input(operator_name, "works along the last axis, which must be fixed, not " + input.text());
  }
}

}  // namespace penstock
