#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/element_codec.hpp"
#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class convert_operation : public operation_test {
 protected:
  /// Converts `samples` of random shapes and compares each output value, found by its own index arithmetic.
  template <class Sample>
  void expect_converted(random_input& random, element_type type, bool to_complex, double offset, double divisor) {
    for (int round = 0; round < 6; ++round) {
      operation_case setup{.op = "convert", .settings = {}, .input = random.spec(type, 1, 700)};
      setup.extent = random.extent(setup.input);
      setup.spare_frames = random.integer(0, 3);
      setup.settings.set("to", std::string{to_complex ? "cf32" : "f32"});
      const auto x = random.integers<Sample>(values_in(setup.input, setup.extent));
      const auto y = run<float>(setup, x);
      const std::size_t step = to_complex && !is_complex(type) ? 2 : 1;
      ASSERT_EQ(y.size(), x.size() * step) << setup.text();
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double expected = i % step != 0 ? 0.0 : (static_cast<double>(x[i / step]) - offset) / divisor;
        ASSERT_NEAR(y[i], expected, 6e-8 * std::abs(expected)) << setup.text() << " at " << i;
      }
    }
  }
};
PENSTOCK_ON_EACH_BACKEND(convert_operation);

template <class Sample>
std::vector<Sample> every_value() {
  std::vector<Sample> all(std::size_t{1} << (8 * sizeof(Sample)));
  std::iota(all.begin(), all.end(), std::numeric_limits<Sample>::min());
  return all;
}

TEST_P(convert_operation, IsRightForEveryU8) {
  const auto x = every_value<std::uint8_t>();
  const operation_case setup{.op = "convert", .settings = {}, .input = {.type = element_type::u8, .shape = {256}}};
  const auto y = run<float>(setup, x);
  ASSERT_EQ(y.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = (static_cast<double>(x[i]) - 127.5) / 127.5;
    EXPECT_NEAR(y[i], expected, 6e-8 * std::abs(expected)) << i;
  }
}

TEST_P(convert_operation, IsExactForEveryI8) {
  const auto x = every_value<std::int8_t>();
  const operation_case setup{.op = "convert", .settings = {}, .input = {.type = element_type::i8, .shape = {256}}};
  const auto y = run<float>(setup, x);
  ASSERT_EQ(y.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(static_cast<double>(y[i]), static_cast<double>(x[i]) / 128.0) << i;
  }
}

TEST_P(convert_operation, IsExactForEveryI16) {
  const auto x = every_value<std::int16_t>();
  const operation_case setup{.op = "convert", .settings = {}, .input = {.type = element_type::i16, .shape = {65536}}};
  const auto y = run<float>(setup, x);
  ASSERT_EQ(y.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(static_cast<double>(y[i]), static_cast<double>(x[i]) / 32768.0) << i;
  }
}

TEST_P(convert_operation, MakesRealValuesOfAnyShape) {
  random_input random;
  SCOPED_TRACE(random.trace());
  expect_converted<std::uint8_t>(random, element_type::u8, false, 127.5, 127.5);
  expect_converted<std::int8_t>(random, element_type::i8, false, 0.0, 128.0);
  expect_converted<std::int16_t>(random, element_type::i16, false, 0.0, 32768.0);
  expect_converted<std::int32_t>(random, element_type::i32, false, 0.0, 2147483648.0);
}

TEST_P(convert_operation, GivesRealValuesAnImaginaryPartOfZero) {
  random_input random;
  SCOPED_TRACE(random.trace());
  expect_converted<std::uint8_t>(random, element_type::u8, true, 127.5, 127.5);
  expect_converted<std::int8_t>(random, element_type::i8, true, 0.0, 128.0);
  expect_converted<std::int16_t>(random, element_type::i16, true, 0.0, 32768.0);
  expect_converted<std::int32_t>(random, element_type::i32, true, 0.0, 2147483648.0);
}

TEST_P(convert_operation, ConvertsIntegerIq) {
  random_input random;
  SCOPED_TRACE(random.trace());
  expect_converted<std::uint8_t>(random, element_type::cu8, true, 127.5, 127.5);
  expect_converted<std::int8_t>(random, element_type::ci8, true, 0.0, 128.0);
  expect_converted<std::int16_t>(random, element_type::ci16, true, 0.0, 32768.0);
}

TEST_P(convert_operation, CopiesFloatsAndTheirSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{1.0F, -infinity, 1e-40F, -0.0F, 3e38F, infinity};
  const operation_case real{.op = "convert", .settings = {}, .input = {.type = element_type::f32, .shape = {6}}};
  const operation_case complex{.op = "convert", .settings = {}, .input = {.type = element_type::cf32, .shape = {3}}};
  EXPECT_EQ(run<float>(real, x), x);
  EXPECT_EQ(run<float>(complex, x), x);
  const std::vector<float> nan{std::numeric_limits<float>::quiet_NaN(), 1.0F};
  const operation_case pair{.op = "convert", .settings = {}, .input = {.type = element_type::f32, .shape = {2}}};
  EXPECT_TRUE(std::isnan(run<float>(pair, nan)[0]));
}

TEST_P(convert_operation, SetsChannelsApartWhenPlanar) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 16; ++round) {
    // Two channels of 4 k samples have a way of their own on CUDA.
    const bool whole_packs = round >= 12;
    const auto samples = static_cast<std::size_t>(whole_packs ? 4 * random.integer(1, 750) : random.integer(1, 3000));
    const auto channels = static_cast<std::size_t>(whole_packs ? 2 : round < 6 ? round + 1 : random.integer(1, 70));
    operation_case setup{.op = "convert", .settings = {}, .input = {.type = element_type::i16, .shape = {}}};
    setup.input.shape = {static_cast<std::int64_t>(samples), static_cast<std::int64_t>(channels)};
    setup.extent = random.extent(setup.input);
    setup.settings.set("planar", true);
    const bool to_complex = random.coin();
    setup.settings.set("to", std::string{to_complex ? "cf32" : "f32"});
    const std::size_t step = to_complex ? 2 : 1;
    const auto x = random.integers<std::int16_t>(values_in(setup.input, setup.extent));
    const auto y = run<float>(setup, x);
    ASSERT_EQ(y.size(), x.size() * step) << setup.text();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t frame = i / (samples * channels);
      const std::size_t sample = i / channels % samples;
      const std::size_t place = (frame * channels + i % channels) * samples + sample;
      ASSERT_EQ(y[place * step] * 32768.0F, static_cast<float>(x[i])) << setup.text() << " at " << i;
      ASSERT_EQ(step == 2 ? y[place * step + 1] : 0.0F, 0.0F) << setup.text() << " at " << i;
    }
  }
}

TEST_P(convert_operation, KeepsIAndQTogetherWhenPlanar) {
  random_input random;
  SCOPED_TRACE(random.trace());
  constexpr std::size_t samples = 1021;
  constexpr std::size_t channels = 3;
  operation_case setup{.op = "convert", .settings = {}, .input = {.type = element_type::ci8, .shape = {samples, 3}}};
  setup.extent.frames = 2;
  setup.settings.set("planar", true);
  const auto x = random.integers<std::int8_t>(values_in(setup.input, setup.extent));
  const auto y = run<float>(setup, x);
  ASSERT_EQ(y.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t element = i / 2;
    const std::size_t frame = element / (samples * channels);
    const std::size_t sample = element / channels % samples;
    const std::size_t place = (frame * channels + element % channels) * samples + sample;
    ASSERT_EQ(y[place * 2 + i % 2] * 128.0F, static_cast<float>(x[i])) << i;
  }
}

using elements = std::vector<std::uint64_t>;

constexpr std::array real_types{element_type::u8,  element_type::u16, element_type::i8,     element_type::i16,
                                element_type::i32, element_type::i64, element_type::f16,    element_type::bf16,
                                element_type::f32, element_type::f64, element_type::boolean};

/// convert from one real type to another, each element as its bits.
class convert_numbers : public operation_test {
 protected:
  [[nodiscard]] static elements convert(const operation_case& setup, const elements& x) {
    const auto bytes = element_codec{part_of(setup.input.type)}.encode_all(x);
    return element_codec{part_of(setup.output().type)}.split(runner().run(setup, bytes));
  }
  [[nodiscard]] static element_type part_of(element_type type) {
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
  [[nodiscard]] static operation_case case_of(element_type from, element_type to, std::size_t count) {
    operation_case setup{.op = "convert", .settings = {}, .input = {.type = from, .shape = {}}};
    setup.input.shape = {static_cast<std::int64_t>(count)};
    setup.settings.set("to", std::string{name_of(to)});
    return setup;
  }
};
PENSTOCK_ON_EACH_BACKEND(convert_numbers);

/// Every element of the types of up to 16 bits; of others its limits, special values, ties and random ones.
elements every_or_some(element_type type, random_input& random) {
  const element_codec codec{type};
  elements all;
  if (type == element_type::boolean) {
    return {0, 1, 1, 0, 1};
  }
  if (codec.bytes() <= 2) {
    all.resize(std::size_t{1} << (8 * codec.bytes()));
    std::iota(all.begin(), all.end(), std::uint64_t{0});
  } else {
    const std::uint64_t mask = codec.bytes() == 8 ? UINT64_MAX : UINT32_MAX;
    for (int i = 0; i < 2000; ++i) {
      all.push_back(static_cast<std::uint64_t>(random.integer(INT64_MIN, INT64_MAX)) & mask);
      all.push_back(codec.encode(static_cast<long double>(random.real(-1.5, 1.5)) * std::ldexp(1.0L, i % 67)));
      // Between two integers, two numbers of f16, bf16 and f32, and a little beside.
      const long double tie = static_cast<long double>(2 * random.integer(-70000, 70000) + 1) / 2.0L;
      const long double far = static_cast<long double>(2 * random.integer(-(1 << 24), 1 << 24) + 1);
      for (const long double beside : {-0x1p-40L, 0.0L, 0x1p-40L}) {
        all.push_back(codec.encode(tie * (1.0L + beside)));
        all.push_back(codec.encode(std::ldexp(far, i % 40 - 2) + beside * 0x1p60L));
      }
    }
  }
  for (const long double special : {0.0L, -0.0L, 1.0L, -1.0L, 65504.0L, 65519.0L, 65520.0L, 0x1p-24L, 0x1p-25L, 3.4e38L,
                                    0x1p53L + 2.0L, 0x1p62L + 0x1p54L + 1024.0L, 0x1p63L, -0x1p63L, 1e300L,
                                    // To the least normal number of bf16, as a tie, or just not; to zero.
                                    -0x1.fe4p-127L, 0x1.fep-127L, 0x1.fdffffffffffp-127L, 0x1p-140L, -0x1p-200L}) {
    all.push_back(codec.encode(special));
  }
  std::erase_if(all, [&codec](std::uint64_t bits) { return codec.is_denormal(bits); });
  return all;
}

struct sample_scale {
  double offset = 0.0;
  double divisor = 1.0;
};

/// The table of docs/operators.md.
sample_scale scale_of(element_type type) {
  switch (type) {
    case element_type::u8:
      return {127.5, 127.5};
    case element_type::u16:
      return {32767.5, 32767.5};
    case element_type::i8:
      return {0.0, 128.0};
    case element_type::i16:
      return {0.0, 32768.0};
    case element_type::i32:
      return {0.0, 2147483648.0};
    default:
      return {};
  }
}

std::uint64_t expected_of(element_type from, element_type to, bool scale, std::uint64_t bits) {
  const element_codec target{to};
  const long double x = element_codec{from}.decode(bits);
  const bool from_floating = is_floating(from);
  const sample_scale by =
      scale && from_floating != is_floating(to) ? scale_of(from_floating ? to : from) : sample_scale{};
  if (by.divisor == 1.0 || to == element_type::boolean) {
    return target.encode(x);
  }
  if (from_floating) {
    return target.encode(static_cast<long double>(static_cast<double>(x) * by.divisor + by.offset));
  }
  if (to == element_type::f64) {
    return target.encode(static_cast<long double>((static_cast<double>(x) - by.offset) / by.divisor));
  }
  return target.encode((x - static_cast<long double>(by.offset)) / static_cast<long double>(by.divisor));
}

TEST_P(convert_numbers, AreRoundedOnceFromEachTypeToEachOther) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type from : real_types) {
    const elements x = every_or_some(from, random);
    for (const element_type to : real_types) {
      for (const bool scale : {true, false}) {
        operation_case setup = case_of(from, to, x.size());
        setup.settings.set("scale", scale);
        const elements y = convert(setup, x);
        ASSERT_EQ(y.size(), x.size());
        const element_codec target{to};
        for (std::size_t i = 0; i < x.size(); ++i) {
          const std::uint64_t expected = expected_of(from, to, scale, x[i]);
          const bool both_nan = std::isnan(target.decode(expected)) && std::isnan(target.decode(y[i]));
          ASSERT_TRUE(both_nan || y[i] == expected)
              << name_of(from) << " to " << name_of(to) << (scale ? "" : " as it is") << ": "
              << element_codec{from}.decode(x[i]) << " gives " << target.decode(y[i]) << ", not "
              << target.decode(expected) << " (bits " << x[i] << ", " << y[i] << ", " << expected << ")";
        }
      }
    }
  }
}

TEST_P(convert_numbers, OfSamplesComeBack) {
  random_input random;
  for (const element_type type : {element_type::u8, element_type::u16, element_type::i8, element_type::i16}) {
    const elements x = every_or_some(type, random);
    for (const element_type between : {element_type::f32, element_type::f64}) {
      const elements there = convert(case_of(type, between, x.size()), x);
      EXPECT_EQ(convert(case_of(between, type, x.size()), there), x) << name_of(type) << " by " << name_of(between);
    }
  }
}

TEST_P(convert_numbers, TakeAnyByteThatIsNotZeroForTrue) {
  const elements x{0, 1, 2, 128, 255};
  EXPECT_EQ(convert(case_of(element_type::boolean, element_type::u8, 5), x), (elements{0, 1, 1, 1, 1}));
  EXPECT_EQ(convert(case_of(element_type::boolean, element_type::boolean, 5), x), (elements{0, 1, 1, 1, 1}));
  const float one = 1.0F;
  std::uint32_t one_bits = 0;
  std::memcpy(&one_bits, &one, sizeof one);
  EXPECT_EQ(convert(case_of(element_type::boolean, element_type::f32, 5), x),
            (elements{0, one_bits, one_bits, one_bits, one_bits}));
}

TEST_P(convert_numbers, HaveZeroForTheDenormalOnesOfF32) {
  for (const element_type from : {element_type::f32, element_type::bf16}) {
    const elements x{1, element_codec{from}.bytes() == 4 ? 0x7fffffU : 0x7fU};
    for (const element_type to : {element_type::bf16, element_type::f64, element_type::boolean}) {
      EXPECT_EQ(convert(case_of(from, to, 2), x), (elements{0, 0})) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST_P(convert_numbers, OfIAndQAreConvertedAlike) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const std::vector<std::pair<element_type, element_type>> pairs{{element_type::cf32, element_type::ci16},
                                                                 {element_type::cf32, element_type::cu8},
                                                                 {element_type::ci16, element_type::ci8},
                                                                 {element_type::cu8, element_type::ci16}};
  for (const auto& [from, to] : pairs) {
    elements x = every_or_some(part_of(from), random);
    x.resize(x.size() / 2 * 2);
    const elements y = convert(case_of(from, to, x.size() / 2), x);
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], expected_of(part_of(from), part_of(to), true, x[i])) << name_of(from) << " at " << i;
    }
  }
}

TEST_P(convert_numbers, GetAnImaginaryPartOfZero) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type from : {element_type::u16, element_type::i64, element_type::f16, element_type::f64}) {
    const elements x = every_or_some(from, random);
    const elements y = convert(case_of(from, element_type::cf32, x.size()), x);
    ASSERT_EQ(y.size(), 2 * x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::uint64_t expected = expected_of(from, element_type::f32, true, x[i]);
      const element_codec f32{element_type::f32};
      ASSERT_TRUE(y[2 * i] == expected || (std::isnan(f32.decode(expected)) && std::isnan(f32.decode(y[2 * i])))) << i;
      ASSERT_EQ(y[2 * i + 1], 0U);
    }
  }
}

TEST_P(convert_numbers, AreSetApartByChannelWhenPlanar) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const std::vector<std::pair<element_type, element_type>> pairs{{element_type::f64, element_type::i16},
                                                                 {element_type::u16, element_type::bf16},
                                                                 {element_type::f16, element_type::cf32},
                                                                 {element_type::cf32, element_type::ci16}};
  for (const auto& [from, to] : pairs) {
    const auto samples = static_cast<std::size_t>(random.integer(1, 700));
    const auto channels = static_cast<std::size_t>(random.integer(1, 9));
    const std::size_t in_parts = is_complex(from) ? 2 : 1;
    const std::size_t out_parts = is_complex(to) ? 2 : 1;
    operation_case setup = case_of(from, to, samples);
    setup.input.shape.push_back(static_cast<std::int64_t>(channels));
    setup.extent.frames = 2;
    setup.settings.set("planar", true);
    elements x(2 * samples * channels * in_parts);
    for (std::uint64_t& each : x) {
      each = element_codec{part_of(from)}.encode(static_cast<long double>(random.real(-1.1, 1.1)) *
                                                 (is_floating(from) ? 1.0L : 40000.0L));
    }
    const elements y = convert(setup, x);
    ASSERT_EQ(y.size(), 2 * samples * channels * out_parts);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t element = i / in_parts;
      const std::size_t frame = element / (samples * channels);
      const std::size_t sample = element / channels % samples;
      const std::size_t place = (frame * channels + element % channels) * samples + sample;
      ASSERT_EQ(y[place * out_parts + i % in_parts], expected_of(part_of(from), part_of(to), true, x[i]))
          << name_of(from) << " to " << name_of(to) << " at " << i;
      ASSERT_TRUE(in_parts == out_parts || y[place * out_parts + 1] == 0);
    }
  }
}

}  // namespace
}  // namespace penstock
