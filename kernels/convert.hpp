#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// convert: integer samples to f32 or cf32 of nominal range [-1, 1].
///
/// Formula, for I and Q alike:
///   u8, cu8    (x - 127.5) / 127.5          i8, ci8    x / 128
///   i16, ci16  x / 32768                    i32        x / 2147483648
///   f32, cf32  x
/// A real value becomes (value, 0) in cf32. i32 is rounded to the 24 bits that f32 has; the other types are within half
/// a unit in the last place.
/// Input: any type, any shape. Output: the input's shape, f32 or cf32.
/// Parameters:
///   to      "f32" | "cf32"; default: cf32 for complex input, f32 for real. Complex input can only become cf32.
///   planar  bool, default false; true: a frame of interleaved channels [N, C] becomes [C, N]. The frame has exactly
///           two dimensions and no "max N".
/// NaN and infinities of f32 and cf32 pass through.
struct convert_settings {
  element_type from = element_type::u8;
  element_type to = element_type::f32;  ///< f32 or cf32
  /// value = (x - offset) / divisor, in single precision; the subtraction is exact for every type that has an offset.
  float offset = 0.0F;
  float divisor = 1.0F;
  bool planar = false;
  std::int64_t channels = 1;  ///< C of a planar frame
  std::int64_t samples = 0;   ///< N of a planar frame
  tensor_spec input;
  tensor_spec output;
};

struct convert_scale {
  float offset;
  float divisor;
};

[[nodiscard]] inline convert_scale convert_scale_of(element_type type) noexcept {
  switch (type) {
    case element_type::u8:
    case element_type::cu8:
      return {127.5F, 127.5F};
    case element_type::i8:
    case element_type::ci8:
      return {0.0F, 128.0F};
    case element_type::i16:
    case element_type::ci16:
      return {0.0F, 32768.0F};
    case element_type::i32:
      return {0.0F, 2147483648.0F};
    case element_type::f32:
    case element_type::cf32:
    case element_type::u16:
    case element_type::i64:
    case element_type::f16:
    case element_type::bf16:
    case element_type::f64:
    case element_type::boolean:
      break;
  }
  return {0.0F, 1.0F};
}

[[nodiscard]] inline element_type parse_convert_type(const parameters& settings, const tensor_spec& input) {
  const bool complex_input = is_complex(input.type);
  const std::string name = settings.text("to", complex_input ? "cf32" : "f32");
  if (name != "f32" && name != "cf32") {
    throw parameter_error("to", "must be \"f32\" or \"cf32\", not \"" + name + "\"");
  }
  if (name == "f32" && complex_input) {
    throw parameter_error("to", "must be \"cf32\" for " + input.text() + "; 'magnitude' makes real values of it");
  }
  return name == "f32" ? element_type::f32 : element_type::cf32;
}

inline void require_planar_input(const tensor_spec& input) {
  if (input.shape.size() != 2) {
    throw parameter_error(
        "planar", "turns round the two dimensions [samples, channels] alone; its input is " + input.text() +
                      (input.shape.size() > 2
                           ? ": convert frames of [samples, channels] before a stage or a client adds a dimension"
                           : ": with one channel there is nothing to turn round"));
  }
  if (input.variable) {
    throw parameter_error("planar", "must be false where the leading dimension is variable: " + input.text() +
                                        "; frames of one length, without \"max\", can be turned round");
  }
}

/// Throws parameter_error.
[[nodiscard]] inline convert_settings parse_convert(const parameters& settings, const tensor_spec& input) {
  require_element_type("convert", input,
                       {element_type::u8, element_type::i8, element_type::i16, element_type::i32, element_type::f32,
                        element_type::cf32, element_type::cu8, element_type::ci8, element_type::ci16});
  convert_settings parsed;
  parsed.from = input.type;
  parsed.to = parse_convert_type(settings, input);
  const convert_scale scale = convert_scale_of(input.type);
  parsed.offset = scale.offset;
  parsed.divisor = scale.divisor;
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = parsed.to;
  parsed.planar = settings.flag("planar", false);
  if (parsed.planar) {
    require_planar_input(input);
    parsed.samples = input.shape[0];
    parsed.channels = input.shape[1];
    parsed.output.shape = {parsed.channels, parsed.samples};
  }
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_convert_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_convert_cuda(const operation_request& request);

}  // namespace penstock
