#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

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

}  // namespace
}  // namespace penstock
