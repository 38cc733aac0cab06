#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/function_attributes.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// unpack: numbers of bytes, in either order: packed 24-bit samples (BDF), big-endian ones (SAC, digitizers).
///
/// Input: u8 [..., N · B], where B is the bytes of one number; the last extent is fixed. It may begin with "max N"
/// where there are two extents or more. Output: [..., N] of the type that holds the numbers: i32 for 24 bits, else that
/// of `format`. Parameters:
///   format  "i24", "u24", "i16", "u16", "i32", "f32" or "f64"; required
///   order   "little" (default) or "big": which byte of a number comes first, the lowest or the highest
/// Every number is exact; bits of floats are kept, those of NaN too.
struct unpack_settings {
  std::int64_t bytes = 3;  ///< of one number
  bool widens = true;      ///< 24 bits, to i32
  bool is_signed = true;
  bool big = false;
  frame_rows rows;  ///< of the output
  tensor_spec output;

  [[nodiscard]] std::int64_t numbers(const batch_extent& extent) const noexcept {
    return rows.count(extent) * rows.max_length();
  }
};

/// The 24 bits of three bytes, the lowest first.
[[nodiscard]] PENSTOCK_HOST_DEVICE inline std::int32_t number_of(std::uint32_t low, std::uint32_t middle,
                                                                 std::uint32_t high, bool is_signed) noexcept {
  const auto bits = static_cast<std::int32_t>(low | middle << 8U | high << 16U);
  return is_signed && high >= 0x80U ? bits - (1 << 24) : bits;
}

/// Throws parameter_error.
[[nodiscard]] inline unpack_settings parse_unpack(const parameters& settings, const tensor_spec& input) {
  using enum element_type;
  require_element_type("unpack", input, {u8});
  if (!settings.has("format")) {
    throw parameter_error("format", "is missing: the numbers that the bytes hold");
  }
  struct known_format {
    element_type type;
    std::int64_t bytes;
    bool is_signed;
  };
  constexpr known_format known[] = {{i32, 3, true}, {i32, 3, false}, {i16, 2, true}, {u16, 2, false},
                                    {i32, 4, true}, {f32, 4, true},  {f64, 8, true}};
  const known_format& format =
      known[parse_choice(settings, "format", {"i24", "u24", "i16", "u16", "i32", "f32", "f64"})];
  unpack_settings parsed;
  parsed.bytes = format.bytes;
  parsed.widens = format.bytes == 3;
  parsed.is_signed = format.is_signed;
  parsed.big = parse_choice(settings, "order", {"little", "big"}) == 1;
  if (input.variable && input.shape.size() == 1) {
    throw parameter_error("from", "'unpack' takes bytes along a fixed last axis, not " + input.text() +
                                      ": such as u8[max " + std::to_string(input.shape.front()) + ", " +
                                      std::to_string(format.bytes) + "]");
  }
  if (input.shape.back() % format.bytes != 0) {
    throw parameter_error("format", "has " + std::to_string(format.bytes) +
                                        " bytes a number, which do not divide the " +
                                        std::to_string(input.shape.back()) + " of " + input.text());
  }
  parsed.output = input;
  parsed.output.type = format.type;
  parsed.output.shape.back() /= format.bytes;
  parsed.rows = frame_rows{parsed.output};
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_unpack_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_unpack_cuda(const operation_request& request);

}  // namespace penstock
