#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// convert: every element type to every other, and interleaved channels to planar ones.
///
/// Integer samples (u8, i8, i16, i32, u16, and I and Q of cu8, ci8, ci16) stand for numbers from -1 to 1. Between them
/// and floating point, unless `scale` is false:
///   u8   v = (x - 127.5) / 127.5        i8   v = x / 128          i32  v = x / 2147483648
///   u16  v = (x - 32767.5) / 32767.5    i16  v = x / 32768        x = v · divisor + offset
/// All else keeps its number: i64 and bool (0 and 1), integer to integer, floating to floating.
/// Rounding: the exact value once, to the nearest, ties to even; v · divisor + offset is computed in f64, each
/// operation rounded, and then rounded to an integer. What an integer can't hold becomes its nearest limit, NaN becomes
/// 0. To f16, bf16 and f32 what is too large becomes an infinity, and NaN stays NaN. bool is x ≠ 0, and so true for
/// NaN. Denormal numbers of f32 and bf16 are zero, but for f32 to f32. A real value becomes (value, 0) in cf32. Input:
/// any type, any shape. Output: the input's shape. Parameters:
///   to      a real type or cf32 for real input, cf32, cu8, ci8 or ci16 for complex; default: f32 or cf32
///   scale   bool, default true; false: a number keeps its value
///   planar  bool, default false; true: a frame of interleaved channels [N, C] becomes [C, N]. The frame has exactly
///           two dimensions and no "max N".
struct convert_settings {
  element_type from = element_type::u8;
  element_type to = element_type::f32;
  /// Between an integer sample x and its number v: v = (x - offset) / divisor. 0 and 1 where the number is x.
  double offset = 0.0;
  double divisor = 1.0;
  bool planar = false;
  std::int64_t channels = 1;  ///< C of a planar frame
  std::int64_t samples = 0;   ///< N of a planar frame
  tensor_spec input;
  tensor_spec output;

  /// To f32 or cf32 of samples with their scale, or of the same: what receivers and microphones give, in single
  /// precision.
  [[nodiscard]] bool is_digitized() const noexcept;
};

struct convert_scale {
  double offset = 0.0;
  double divisor = 1.0;

  bool operator==(const convert_scale&) const = default;
};

/// The type of an element's parts: u8 of cu8, f32 of cf32.
[[nodiscard]] inline element_type part_type(element_type type) noexcept {
  switch (type) {
    case element_type::cu8:
      return element_type::u8;
    case element_type::ci8:
      return element_type::i8;
    case element_type::ci16:
      return element_type::i16;
    case element_type::cf32:
      return element_type::f32;
    default:
      return type;
  }
}

/// Of a type that is no integer sample: 0 and 1.
[[nodiscard]] inline convert_scale convert_scale_of(element_type type) noexcept {
  switch (part_type(type)) {
    case element_type::u8:
      return {127.5, 127.5};
    case element_type::i8:
      return {0.0, 128.0};
    case element_type::i16:
      return {0.0, 32768.0};
    case element_type::i32:
      return {0.0, 2147483648.0};
    case element_type::u16:
      return {32767.5, 32767.5};
    default:
      return {};
  }
}

inline bool convert_settings::is_digitized() const noexcept {
  const bool single = part_type(to) == element_type::f32;
  const element_type part = part_type(from);
  return single &&
         (part == element_type::f32 || (part != element_type::u16 && convert_scale_of(part) != convert_scale{} &&
                                        convert_scale{offset, divisor} == convert_scale_of(part)));
}

[[nodiscard]] inline element_type parse_convert_type(const parameters& settings, const tensor_spec& input) {
  using enum element_type;
  const bool complex_input = is_complex(input.type);
  const std::string name = settings.text("to", complex_input ? "cf32" : "f32");
  const std::optional<element_type> to = element_type_of(name);
  if (to && complex_input && !is_complex(*to)) {
    throw parameter_error("to", "must be \"cf32\", \"cu8\", \"ci8\" or \"ci16\" for " + input.text() +
                                    "; 'magnitude' makes real values of it");
  }
  if (to && !complex_input && is_complex(*to) && *to != cf32) {
    throw parameter_error("to", "must be a real type or \"cf32\" for " + input.text() + ", not \"" + name + "\"");
  }
  if (!to) {
    throw parameter_error("to", "must be an element type, such as \"f32\" or \"cf32\", not \"" + name + "\"");
  }
  return *to;
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
  convert_settings parsed;
  parsed.from = input.type;
  parsed.to = parse_convert_type(settings, input);
  if (settings.flag("scale", true) && is_floating(parsed.from) != is_floating(parsed.to)) {
    const convert_scale scale = convert_scale_of(is_floating(parsed.from) ? parsed.to : parsed.from);
    parsed.offset = scale.offset;
    parsed.divisor = scale.divisor;
  }
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
