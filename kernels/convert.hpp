#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/operation.hpp"

namespace penstock {

/// convert: integers as a digitizer delivers them → f32 or cf32 of nominal range [-1, 1].
///
/// Formula, for I and Q alike:
///   u8, cu8    (x - 127.5) / 127.5          i8, ci8    x / 128
///   i16, ci16  x / 32768                    i32        x / 2147483648
///   f32, cf32  x
/// A real value becomes (value, 0) in cf32. i32 is rounded to the 24 bits that f32 has; the other types are within half
/// a unit in the last place.
/// Input: any type, any shape. Output: the input's shape, f32 or cf32.
/// Parameters:
///   to      "f32" | "cf32"; default: cf32 for complex input, f32 for real. Complex input becomes nothing but cf32.
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

/// Throws parameter_error.
[[nodiscard]] convert_settings parse_convert(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_convert(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_convert_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_convert_cuda(const operation_request& request);

}  // namespace penstock
