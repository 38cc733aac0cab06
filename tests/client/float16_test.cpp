#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <penstock/float16.hpp>
#include <penstock/result.hpp>

namespace penstock {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class Number>
Number from_bits(unsigned bits) {
  Number number;
  number.bits = static_cast<std::uint16_t>(bits);
  return number;
}

/// By the definition of IEEE 754: sign, exponent, fraction.
double value_of(unsigned bits, int fraction_bits, int bias) {
  const unsigned fraction = bits & ((1U << fraction_bits) - 1U);
  const int exponent = static_cast<int>((bits & 0x7fffU) >> fraction_bits);
  const double size = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                    : std::ldexp(fraction + (1U << fraction_bits), exponent - bias - fraction_bits);
  return (bits & 0x8000U) != 0 ? -size : size;
}

template <class Number>
void expect_all(int fraction_bits, int bias, unsigned infinite) {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const auto number = from_bits<Number>(bits);
    const auto value = static_cast<float>(number);
    if ((bits & 0x7fffU) > infinite) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(Number{value}))) << bits;
      continue;
    }
    const double expected = (bits & 0x7fffU) == infinite ? std::copysign(HUGE_VAL, (bits & 0x8000U) != 0 ? -1.0 : 1.0)
                                                         : value_of(bits, fraction_bits, bias);
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000U) != 0) << bits;
    ASSERT_EQ(Number{value}.bits, bits);
    if ((bits & 0x7fffU) + 1 < infinite) {  // the middle of two neighbours, and a little on each side
      const auto next = static_cast<float>(from_bits<Number>(bits + 1));
      const float middle = value + (next - value) / 2;
      ASSERT_EQ(Number{std::nextafter(middle, value)}.bits, bits);
      ASSERT_EQ(Number{std::nextafter(middle, next)}.bits, bits + 1);
      ASSERT_EQ(Number{middle}.bits, bits % 2 == 0 ? bits : bits + 1);
    }
  }
}

TEST(Float16, IsTheNearestNumberOfEach) {
  expect_all<float16>(10, 15, 0x7c00U);
  EXPECT_EQ(float16{65519.99F}.bits, 0x7bffU);
  EXPECT_EQ(float16{65520.0F}.bits, 0x7c00U);
  EXPECT_EQ(float16{-1e30F}.bits, 0xfc00U);
  EXPECT_EQ(static_cast<float>(float16{infinity}), infinity);
}

TEST(Bfloat16, IsTheNearestNumberOfEach) {
  expect_all<bfloat16>(7, 127, 0x7f80U);
  EXPECT_EQ(bfloat16{std::numeric_limits<float>::max()}.bits, 0x7f80U);
  EXPECT_EQ(static_cast<float>(bfloat16{-infinity}), -infinity);
}

TEST(TensorView, GivesItsElementsAsTheirTypes) {
  const std::array<std::byte, 8> bytes{std::byte{0}, std::byte{0x3e}, std::byte{0}, std::byte{0xc0},
                                       std::byte{1}, std::byte{0},    std::byte{2}, std::byte{0}};
  tensor_view tensor;
  tensor.bytes = bytes;
  EXPECT_EQ(static_cast<float>(tensor.to_vector<float16>()[0]), 1.5F);
  EXPECT_EQ(static_cast<float>(tensor.to_vector<bfloat16>()[1]), -2.0F);
  EXPECT_EQ(tensor.to_vector<std::int64_t>(), std::vector<std::int64_t>{0x00020001c0003e00});
  EXPECT_EQ(tensor.to_vector<bool>(), (std::vector<bool>{false, true, false, true, true, false, true, false}));
}

}  // namespace
}  // namespace penstock
