#pragma once

#include <cstdint>
#include <cstring>

namespace penstock {

/// An element of "f16": a number of IEEE 754 in 16 bits, for memory only. Convert it to compute with it. Its bytes are
/// those on the wire, so that std::vector<float16> is a payload and tensor_view::to_vector<float16>() a result.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  /// To the nearest, ties to even; beyond 65504 (from 65520 on) infinity. NaN stays NaN.
  explicit float16(float number) noexcept {
    std::uint32_t all = 0;
    std::memcpy(&all, &number, sizeof all);
    const std::uint32_t sign = all >> 16U & 0x8000U;
    const std::uint32_t size = all & 0x7fffffffU;
    bits = static_cast<std::uint16_t>(sign | rounded(size));
  }

  /// Exact.
  explicit operator float() const noexcept {
    const std::uint32_t exponent = bits >> 10U & 0x1fU;
    const std::uint32_t fraction = bits & 0x3ffU;
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    if (exponent == 0) {
      const float small = static_cast<float>(fraction) * 0x1p-24F;
      return sign != 0 ? -small : small;
    }
    const std::uint32_t all = sign | (exponent == 0x1fU ? 0xffU : exponent + 112U) << 23U | fraction << 13U;
    float number = 0;
    std::memcpy(&number, &all, sizeof number);
    return number;
  }

 private:
  [[nodiscard]] static std::uint32_t rounded(std::uint32_t size) noexcept {
    if (size > 0x7f800000U) {
      return 0x7e00U;
    }
    const std::uint32_t exponent = size >> 23U;
    if (exponent >= 143U) {
      return 0x7c00U;
    }
    const bool denormal = exponent < 113U;
    const std::uint32_t dropped = denormal ? 126U - exponent : 13U;
    if (dropped > 24U) {
      return 0;
    }
    const std::uint32_t whole = denormal ? (size & 0x7fffffU) | 0x800000U : size - (112U << 23U);
    const std::uint32_t half = std::uint32_t{1} << (dropped - 1U);
    return (whole + half - 1U + (whole >> dropped & 1U)) >> dropped;
  }
};

/// An element of "bf16": the upper half of a float, for memory only.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  /// To the nearest, ties to even. NaN stays NaN.
  explicit bfloat16(float number) noexcept {
    std::uint32_t all = 0;
    std::memcpy(&all, &number, sizeof all);
    const bool nan = (all & 0x7fffffffU) > 0x7f800000U;
    all = nan ? all | 0x400000U : all + 0x7fffU + (all >> 16U & 1U);
    bits = static_cast<std::uint16_t>(all >> 16U);
  }

  /// Exact.
  explicit operator float() const noexcept {
    const std::uint32_t all = std::uint32_t{bits} << 16U;
    float number = 0;
    std::memcpy(&number, &all, sizeof number);
    return number;
  }
};

static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2);

}  // namespace penstock
