#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/frame_rows.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// histogram: how many values of each row along the last axis fall into each of 256 bins.
///
/// Bins, for I and Q alike:
///   u8, cu8    x                       i8, ci8    x + 128
///   i16, ci16  (x + 32768) >> 8        i32        (x + 2^31) >> 24
///   f32, cf32  clip(floor((v - lo) · 256 / (hi - lo)), 0, 255), in float64 and in this order
/// With the default range, f32 that `convert` made of u8, i8 or i16 gives exactly the bins of the integers. (f32 made
/// of i32 has lost its low bits, so a value just below a bin's edge can count in the next one.)
///
/// Input: any type; the last extent may be "max N" when it is the leading one.
/// Output: i32 [..., 256] for real input, [..., 2, 256] for complex, rows I and Q. A "max N" that is the last axis is
/// gone from the output.
/// Parameters:
///   range  [lo, hi], finite, lo < hi, in the unit of the values; default [-1, 1]. Only f32 and cf32 have it.
/// A NaN is counted in no bin; infinities count in the first and the last one.
struct histogram_settings {
  element_type type = element_type::u8;
  std::int64_t parts = 1;  ///< 1, or 2 for I and Q
  double low = -1.0;
  double width = 2.0;  ///< hi - lo
  /// 256 / width when that is a power of two, so that multiplying by it gives exactly what · 256 / width does; else 0.
  double exact_scale = 128.0;
  frame_rows rows;  ///< of the input
  tensor_spec input;
  tensor_spec output;
};

inline constexpr std::int64_t histogram_bins = 256;

/// Throws parameter_error.
[[nodiscard]] histogram_settings parse_histogram(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_histogram(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_histogram_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_histogram_cuda(const operation_request& request);

}  // namespace penstock
