#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/tensor.hpp"

namespace penstock {

// f16 and bf16 of the host, whose compiler has no type for them: 16 bits that are read as a float and written from a
// double. Without branches, so that loops over them are vectorised. Exact with denormal numbers flushed to zero, as
// they are while operations run: the denormals of f16 are ordinary numbers of f32.

struct half_bits {
  std::uint16_t bits = 0;
};
struct brain_bits {
  std::uint16_t bits = 0;
};

[[gnu::always_inline]] inline float to_float(half_bits value) noexcept {
  constexpr std::uint32_t exponents = 0x7c00U << 13U;
  constexpr std::uint32_t rebased = (127U - 15U) << 23U;
  constexpr std::uint32_t least = 113U << 23U;  // 2^-14, the smallest f16 that is not denormal
  const std::uint32_t magnitude = (value.bits & 0x7fffU) << 13U;
  const std::uint32_t exponent = magnitude & exponents;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + least) - std::bit_cast<float>(least));
  const std::uint32_t usual = magnitude + rebased;
  const std::uint32_t made = exponent == exponents ? usual + rebased : exponent == 0 ? small : usual;
  return std::bit_cast<float>(made | (value.bits & 0x8000U) << 16U);
}

[[gnu::always_inline]] inline float to_float(brain_bits value) noexcept {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16U);
}

/// To the nearest, ties to even.
[[gnu::always_inline]] inline half_bits to_half(float value) noexcept {
  constexpr std::uint32_t infinity = 0x7f800000U;
  constexpr std::uint32_t beyond = (127U + 16U) << 23U;                  // 2^16
  constexpr std::uint32_t least = 113U << 23U;                           // 2^-14
  constexpr std::uint32_t aligner = std::bit_cast<std::uint32_t>(0.5F);  // added, a last place is 2^-24
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t bits = all & 0x7fffffffU;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits < least ? bits : 0U) + 0.5F) - aligner;
  const std::uint32_t usual = (bits - ((127U - 15U) << 23U) + 0xfffU + (bits >> 13U & 1U)) >> 13U;
  const std::uint32_t large = bits > infinity ? 0x7e00U : 0x7c00U;
  const std::uint32_t made = bits >= beyond ? large : bits < least ? small : usual;
  return {static_cast<std::uint16_t>(made | (all >> 16U & 0x8000U))};
}

[[gnu::always_inline]] inline brain_bits to_brain(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const std::uint32_t made = nan ? bits | 0x400000U : bits + 0x7fffU + (bits >> 16U & 1U);
  return {static_cast<std::uint16_t>(made >> 16U)};
}

[[gnu::always_inline]] inline float to_float(float value) noexcept {
  return value;
}

/// Of an element of f32, f16 or bf16.
[[nodiscard]] inline bool is_nan(element_type type, const void* element) noexcept {
  if (type == element_type::f32) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, element, sizeof bits);
    return (bits & 0x7fffffffU) > 0x7f800000U;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, element, sizeof bits);
  return (bits & 0x7fffU) > (type == element_type::f16 ? 0x7c00U : 0x7f80U);
}

/// To the nearest of float, half_bits or brain_bits.
template <class To>
[[gnu::always_inline]] inline To stored(float value) noexcept {
  if constexpr (std::is_same_v<To, half_bits>) {
    return to_half(value);
  } else if constexpr (std::is_same_v<To, brain_bits>) {
    return to_brain(value);
  } else {
    return value;
  }
}

/// out[i] = in[i], of `type`, rounded to `factor`; each is f32, f16 or bf16. An element gets the same bits wherever it
/// stands.
void round_factors(element_type factor, element_type type, const void* in, float* out, std::size_t count) noexcept;
/// out[i] = in[i], rounded to `type`: f16 or bf16.
void store_rounded(element_type type, const float* in, void* out, std::size_t count) noexcept;

/// The value cut to the 24 bits of a float, whose last bit is set where bits were lost ("round to odd"): rounded once
/// more, to 22 bits or fewer, it gives what `value` itself does. It is no denormal, which a thread may take for zero:
/// the least normal number where bf16 rounds up to that, else zero.
[[gnu::always_inline]] inline float to_odd_float(double value) noexcept {
  constexpr std::int64_t lost = (std::int64_t{1} << 29U) - 1;
  constexpr auto least = std::bit_cast<std::int64_t>(0x1p-126);
  constexpr auto rounds_up = std::bit_cast<std::int64_t>(0x1p-126 - 0x1p-134);
  const auto bits = std::bit_cast<std::int64_t>(value);
  const std::int64_t size = bits & INT64_MAX;
  const std::int64_t odd = (size & ~lost) | (((size & lost) + lost) & (lost + 1));
  const std::int64_t made = size >= least ? odd : size >= rounds_up ? least : 0;
  return static_cast<float>(std::bit_cast<double>(made | (bits & INT64_MIN)));
}

}  // namespace penstock
