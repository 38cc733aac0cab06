#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tensor.hpp"

namespace penstock {

// Runs of values of any real element type, on the host: read as numbers of 64 bits, whole ones (std::int64_t) or real
// ones (double), and written from them. Strides are in values. Pure functions; any thread.

/// Reads `count` values as std::int64_t if is_whole(type), else as double. Every value is exact, but for denormal
/// numbers, which are zero but for f16's. A bool is 0 or 1.
using read_values = void (*)(const void* from, std::size_t stride, std::size_t count, void* to);
[[nodiscard]] read_values reader_of(element_type type) noexcept;

/// Writes `count` values from std::int64_t if is_whole(type), else from double. What an integer can't hold becomes its
/// nearest limit; a bool is whether the number is not 0. Real numbers are rounded once, ties to even; what is too large
/// becomes an infinity, and NaN stays NaN.
using write_values = void (*)(const void* from, void* to, std::size_t stride, std::size_t count);
[[nodiscard]] write_values writer_of(element_type type) noexcept;

/// Integers and bool, of which numbers are whole; the others are real.
[[nodiscard]] inline bool is_whole(element_type type) noexcept {
  return !is_floating(type);
}

/// number = (whole - offset) / divisor, of whole numbers of at most 32 bits.
void scale_whole(const std::int64_t* from, double* to, std::size_t count, double offset, double divisor);
/// The same number. With more than 53 bits it is rounded: to nearest, or if `again` so that rounding the result once
/// more, to f32, bf16 or f16, gives what rounding the number does.
void widen_whole(const std::int64_t* from, double* to, std::size_t count, bool again);
/// whole = real · divisor + offset, to the nearest, ties to even; what does not fit becomes the nearest limit, NaN 0.
void round_real(const double* from, std::int64_t* to, std::size_t count, double offset, double divisor);
/// 1 for numbers that are not 0, and for NaN.
void test_real(const double* from, std::int64_t* to, std::size_t count);

}  // namespace penstock
