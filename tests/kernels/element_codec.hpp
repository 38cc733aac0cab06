#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/tensor.hpp"

namespace penstock {

/// Numbers of any real element type, written and read by the definition of the type alone: sign, exponent, fraction.
/// A long double holds each of them exactly.
class element_codec {
 public:
  explicit element_codec(element_type type) : type_{type} {}

  [[nodiscard]] std::size_t bytes() const { return size_of(type_); }
  [[nodiscard]] bool floating() const { return is_floating(type_); }

  /// The element's bits as a number.
  [[nodiscard]] long double decode(std::uint64_t bits) const {
    if (!floating()) {
      return type_ == element_type::boolean ? (bits != 0 ? 1.0L : 0.0L) : decode_integer(bits);
    }
    const layout of = layout_of();
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << of.fraction) - 1);
    const auto exponent = static_cast<int>(bits >> of.fraction & ((std::uint64_t{1} << of.exponent) - 1));
    const long double sign = (bits >> (of.fraction + of.exponent) & 1) != 0 ? -1.0L : 1.0L;
    if (exponent == (1 << of.exponent) - 1) {
      return fraction != 0 ? std::numeric_limits<long double>::quiet_NaN()
                           : sign * std::numeric_limits<long double>::infinity();
    }
    const std::uint64_t whole = exponent == 0 ? fraction : fraction | std::uint64_t{1} << of.fraction;
    return sign * std::ldexp(static_cast<long double>(whole), std::max(exponent, 1) - of.bias() - of.fraction);
  }

  /// The bits of the nearest element, ties to even; of an integer the nearest that it can hold, NaN is 0 and, as bool,
  /// true. Denormal numbers of bf16, f32 and f64 are zero.
  [[nodiscard]] std::uint64_t encode(long double number) const {
    return floating() ? encode_floating(number) : encode_integer(number);
  }

  [[nodiscard]] std::vector<std::byte> encode_all(std::span<const std::uint64_t> elements) const {
    std::vector<std::byte> all(elements.size() * bytes());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      std::memcpy(all.data() + i * bytes(), &elements[i], bytes());
    }
    return all;
  }
  [[nodiscard]] std::vector<std::uint64_t> split(std::span<const std::byte> all) const {
    std::vector<std::uint64_t> elements(all.size() / bytes());
    for (std::size_t i = 0; i < elements.size(); ++i) {
      std::memcpy(&elements[i], all.data() + i * bytes(), bytes());
    }
    return elements;
  }

  /// Whether operators may take it for zero.
  [[nodiscard]] bool is_denormal(std::uint64_t bits) const {
    if (!floating() || type_ == element_type::f16) {
      return false;
    }
    const layout of = layout_of();
    return (bits >> of.fraction & ((std::uint64_t{1} << of.exponent) - 1)) == 0 &&
           (bits & ((std::uint64_t{1} << of.fraction) - 1)) != 0;
  }

 private:
  struct layout {
    int exponent;
    int fraction;
    [[nodiscard]] int bias() const { return (1 << (exponent - 1)) - 1; }
  };

  [[nodiscard]] layout layout_of() const {
    switch (type_) {
      case element_type::f16:
        return {5, 10};
      case element_type::bf16:
        return {8, 7};
      case element_type::f32:
        return {8, 23};
      case element_type::f64:
        return {11, 52};
      default:
        throw std::invalid_argument("no real floating-point type");
    }
  }

  [[nodiscard]] long double decode_integer(std::uint64_t bits) const {
    const auto unused = static_cast<unsigned>(64 - 8 * bytes());
    const bool is_unsigned = type_ == element_type::u8 || type_ == element_type::u16;
    return is_unsigned ? static_cast<long double>(bits)
                       : static_cast<long double>(static_cast<std::int64_t>(bits << unused) >> unused);
  }

  [[nodiscard]] std::uint64_t encode_integer(long double number) const {
    if (type_ == element_type::boolean) {
      return number != 0.0L ? 1 : 0;
    }
    if (std::isnan(number)) {
      return 0;
    }
    const bool is_unsigned = type_ == element_type::u8 || type_ == element_type::u16;
    const int bits = static_cast<int>(8 * bytes()) - (is_unsigned ? 0 : 1);
    const long double most = std::ldexp(1.0L, bits) - 1.0L;
    const long double least = is_unsigned ? 0.0L : -std::ldexp(1.0L, bits);
    const auto whole = static_cast<std::int64_t>(std::clamp(std::nearbyint(number), least, most));
    return bytes() == 8 ? static_cast<std::uint64_t>(whole)
                        : static_cast<std::uint64_t>(whole) & ((std::uint64_t{1} << (8 * bytes())) - 1);
  }

  [[nodiscard]] std::uint64_t encode_floating(long double number) const {
    const layout of = layout_of();
    const std::uint64_t sign = std::uint64_t{std::signbit(number)} << (of.fraction + of.exponent);
    const std::uint64_t infinity = ((std::uint64_t{1} << of.exponent) - 1) << of.fraction;
    if (std::isnan(number)) {
      return infinity | 1;
    }
    const long double size = std::abs(number);
    if (size == 0.0L || std::isinf(number)) {
      return sign | (size == 0.0L ? 0 : infinity);
    }
    int exponent = std::max(std::ilogb(size), 1 - of.bias());
    long double whole = std::nearbyint(std::ldexp(size, of.fraction - exponent));
    if (whole >= std::ldexp(1.0L, of.fraction + 1)) {
      whole /= 2.0L;
      ++exponent;
    }
    const auto fraction = static_cast<std::uint64_t>(whole);
    const bool denormal = fraction >> of.fraction == 0;
    if (exponent > of.bias()) {
      return sign | infinity;
    }
    if (denormal) {
      return sign | (type_ == element_type::f16 ? fraction : 0);
    }
    return sign | static_cast<std::uint64_t>(exponent + of.bias()) << of.fraction |
           (fraction & ((std::uint64_t{1} << of.fraction) - 1));
  }

  element_type type_;
};

}  // namespace penstock
