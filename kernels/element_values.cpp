#include "kernels/element_values.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <limits>

#include "kernels/function_attributes.hpp"
#include "kernels/half.hpp"

namespace penstock {
namespace {

struct bool_byte {
  std::uint8_t byte = 0;
};

template <std::integral Integer>
[[gnu::always_inline]] inline std::int64_t number_of(Integer value) noexcept {
  return value;
}
[[gnu::always_inline]] inline std::int64_t number_of(bool_byte value) noexcept {
  return value.byte != 0 ? 1 : 0;
}
[[gnu::always_inline]] inline double number_of(double value) noexcept {
  return value;
}
[[gnu::always_inline]] inline double number_of(float value) noexcept {
  return static_cast<double>(value);
}
[[gnu::always_inline]] inline double number_of(half_bits value) noexcept {
  return static_cast<double>(to_float(value));
}
[[gnu::always_inline]] inline double number_of(brain_bits value) noexcept {
  return static_cast<double>(to_float(value));
}

template <std::integral Integer>
[[gnu::always_inline]] inline void set(Integer& value, std::int64_t number) noexcept {
  using limits = std::numeric_limits<Integer>;
  value = static_cast<Integer>(std::clamp<std::int64_t>(number, limits::min(), limits::max()));
}
[[gnu::always_inline]] inline void set(bool_byte& value, std::int64_t number) noexcept {
  value.byte = number != 0 ? 1 : 0;
}
[[gnu::always_inline]] inline void set(double& value, double number) noexcept {
  value = number;
}
[[gnu::always_inline]] inline void set(float& value, double number) noexcept {
  value = static_cast<float>(number);
}

/// Contiguous values have a loop of their own, which the compiler vectorises.
template <class Type>
[[gnu::always_inline]] inline void read_run(const void* from, std::size_t stride, std::size_t count,
                                            void* to) noexcept {
  using number = decltype(number_of(Type{}));
  const auto* const __restrict values = static_cast<const Type*>(from);
  auto* const __restrict numbers = static_cast<number*>(to);
  if (stride == 1) {
    for (std::size_t i = 0; i < count; ++i) {
      numbers[i] = number_of(values[i]);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      numbers[i] = number_of(values[i * stride]);
    }
  }
}

template <class Type>
[[gnu::always_inline]] inline void write_run(const void* from, void* to, std::size_t stride,
                                             std::size_t count) noexcept {
  using number = decltype(number_of(Type{}));
  const auto* const __restrict numbers = static_cast<const number*>(from);
  auto* const __restrict values = static_cast<Type*>(to);
  if (stride == 1) {
    for (std::size_t i = 0; i < count; ++i) {
      set(values[i], numbers[i]);
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      set(values[i * stride], numbers[i]);
    }
  }
}

/// Numbers of 64, 32 and 16 bits in one loop are too many widths for the compiler's vectors: it takes two.
template <class Bits>
[[gnu::always_inline]] inline void write_small(const void* from, void* to, std::size_t stride, std::size_t count,
                                               Bits (*rounded)(float) noexcept) noexcept {
  constexpr std::size_t block = 256;
  const auto* const numbers = static_cast<const double*>(from);
  auto* const values = static_cast<Bits*>(to);
  std::array<float, block> floats;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t length = std::min(block, count - first);
    for (std::size_t i = 0; i < length; ++i) {
      floats[i] = to_odd_float(numbers[first + i]);
    }
    Bits* const __restrict out = values + first * stride;
    if (stride == 1) {
      for (std::size_t i = 0; i < length; ++i) {
        out[i] = rounded(floats[i]);
      }
    } else {
      for (std::size_t i = 0; i < length; ++i) {
        out[i * stride] = rounded(floats[i]);
      }
    }
  }
}

template <class Type>
void read_plain(const void* from, std::size_t stride, std::size_t count, void* to) {
  read_run<Type>(from, stride, count, to);
}
template <class Type>
void write_plain(const void* from, void* to, std::size_t stride, std::size_t count) {
  write_run<Type>(from, to, stride, count);
}

// What takes arithmetic, with vectors.
PENSTOCK_VECTOR_CLONES void read_f16(const void* from, std::size_t stride, std::size_t count, void* to) {
  read_run<half_bits>(from, stride, count, to);
}
PENSTOCK_VECTOR_CLONES void read_bf16(const void* from, std::size_t stride, std::size_t count, void* to) {
  read_run<brain_bits>(from, stride, count, to);
}
PENSTOCK_VECTOR_CLONES void read_f32(const void* from, std::size_t stride, std::size_t count, void* to) {
  read_run<float>(from, stride, count, to);
}
PENSTOCK_VECTOR_CLONES void write_f16(const void* from, void* to, std::size_t stride, std::size_t count) {
  write_small<half_bits>(from, to, stride, count, to_half);
}
PENSTOCK_VECTOR_CLONES void write_bf16(const void* from, void* to, std::size_t stride, std::size_t count) {
  write_small<brain_bits>(from, to, stride, count, to_brain);
}
PENSTOCK_VECTOR_CLONES void write_f32(const void* from, void* to, std::size_t stride, std::size_t count) {
  write_run<float>(from, to, stride, count);
}

struct access {
  read_values read;
  write_values write;
};

access access_of(element_type type) noexcept {
  switch (type) {
    case element_type::u8:
      return {read_plain<std::uint8_t>, write_plain<std::uint8_t>};
    case element_type::i8:
      return {read_plain<std::int8_t>, write_plain<std::int8_t>};
    case element_type::i16:
      return {read_plain<std::int16_t>, write_plain<std::int16_t>};
    case element_type::i32:
      return {read_plain<std::int32_t>, write_plain<std::int32_t>};
    case element_type::u16:
      return {read_plain<std::uint16_t>, write_plain<std::uint16_t>};
    case element_type::i64:
      return {read_plain<std::int64_t>, write_plain<std::int64_t>};
    case element_type::boolean:
      return {read_plain<bool_byte>, write_plain<bool_byte>};
    case element_type::f16:
      return {read_f16, write_f16};
    case element_type::bf16:
      return {read_bf16, write_bf16};
    case element_type::f32:
      return {read_f32, write_f32};
    case element_type::f64:
      return {read_plain<double>, write_plain<double>};
    case element_type::cf32:
    case element_type::cu8:
    case element_type::ci8:
    case element_type::ci16:
      break;
  }
  return {};
}

constexpr std::int64_t exact_limit = std::int64_t{1} << 53U;

/// Rounded to 53 bits whose last one says whether bits were lost ("round to odd").
[[gnu::always_inline]] inline double to_odd_double(std::int64_t number) noexcept {
  if (number > -exact_limit && number < exact_limit) {
    return static_cast<double>(number);
  }
  const std::int64_t kept = number >> 11U | static_cast<std::int64_t>((number & 2047) != 0);
  return static_cast<double>(kept) * 2048.0;
}

}  // namespace

read_values reader_of(element_type type) noexcept {
  return access_of(type).read;
}

write_values writer_of(element_type type) noexcept {
  return access_of(type).write;
}

void scale_whole(const std::int64_t* __restrict from, double* __restrict to, std::size_t count, double offset,
                 double divisor) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = (static_cast<double>(from[i]) - offset) / divisor;
  }
}

void widen_whole(const std::int64_t* __restrict from, double* __restrict to, std::size_t count, bool again) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = again ? to_odd_double(from[i]) : static_cast<double>(from[i]);
  }
}

PENSTOCK_VECTOR_CLONES void round_real(const double* __restrict from, std::int64_t* __restrict to, std::size_t count,
                                       double offset, double divisor) {
  constexpr double beyond = 9223372036854775808.0;  // 2^63
  for (std::size_t i = 0; i < count; ++i) {
    const double rounded = std::nearbyint(from[i] * divisor + offset);
    const std::int64_t fitting = rounded >= -beyond && rounded < beyond ? static_cast<std::int64_t>(rounded) : 0;
    to[i] = rounded >= beyond   ? std::numeric_limits<std::int64_t>::max()
            : rounded < -beyond ? std::numeric_limits<std::int64_t>::min()
                                : fitting;
  }
}

void test_real(const double* __restrict from, std::int64_t* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = std::bit_cast<std::uint64_t>(from[i]) << 1U != 0 ? 1 : 0;
  }
}

}  // namespace penstock
