#include <cmath>
#include <limits>

#include "tests/kernels/element_codec.hpp"
#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class affine_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(affine_operation);

TEST_P(affine_operation, ScalesAndShiftsRealValuesOfAnyShape) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 12; ++round) {
    operation_case setup{.op = "affine", .settings = {}, .input = random.spec(element_type::f32, 1, 700)};
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    const double a = random.real(-3.0, 3.0);
    const double b = random.real(-3.0, 3.0);
    setup.settings.set("a", a);
    setup.settings.set("b", b);
    const auto x = random.normal(values_in(setup.input, setup.extent));
    const auto y = run<float>(setup, x);
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(y[i], a * x[i] + b, 4e-7 * (std::abs(a * x[i]) + std::abs(b))) << setup.text() << " at " << i;
    }
  }
}

TEST_P(affine_operation, AddsOnlyToTheRealPart) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 12; ++round) {
    operation_case setup{.op = "affine", .settings = {}, .input = random.spec(element_type::cf32, 1, 300)};
    setup.extent = random.extent(setup.input);
    setup.settings.set("a", -2.0);
    setup.settings.set("b", std::int64_t{3});
    const auto x = random.normal(values_in(setup.input, setup.extent));
    const auto y = run<float>(setup, x);
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double b = i % 2 == 0 ? 3.0 : 0.0;
      ASSERT_NEAR(y[i], -2.0 * x[i] + b, 4e-7 * (2.0 * std::abs(x[i]) + b)) << setup.text() << " at " << i;
    }
  }
}

TEST_P(affine_operation, TakesF64InDoublePrecision) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t length : {1, 2, 7, 1001}) {
    operation_case setup{.op = "affine", .settings = {}, .input = {.type = element_type::f64, .shape = {length}}};
    setup.extent.frames = 3;
    setup.settings.set("a", 1e100);
    setup.settings.set("b", -0.1);
    std::vector<double> x(static_cast<std::size_t>(3 * length));
    for (double& each : x) {
      each = random.real(-1.0, 1.0) * (random.coin() ? 1.0 : 1e-101);
    }
    const auto y = run<double>(setup, x);
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(y[i], 1e100 * x[i] - 0.1, 4e-16 * (std::abs(1e100 * x[i]) + 0.1)) << i;
    }
  }
}

TEST_P(affine_operation, RoundsF16AndBf16) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f16, element_type::bf16}) {
    const element_codec codec{type};
    const double precision = type == element_type::f16 ? 0x1p-11 : 0x1p-8;
    operation_case setup{.op = "affine", .settings = {}, .input = {.type = type, .shape = {1237}}};
    setup.extent.frames = 2;
    setup.settings.set("a", -3.0);
    setup.settings.set("b", 0.5);
    std::vector<std::uint64_t> x(2 * 1237);
    for (std::uint64_t& each : x) {
      each = codec.encode(static_cast<long double>(random.real(-100.0, 100.0)));
    }
    x[5] = codec.encode(std::numeric_limits<long double>::quiet_NaN());
    x[6] = codec.encode(std::numeric_limits<long double>::infinity());
    const auto y = codec.split(run<std::byte>(setup, codec.encode_all(x)));
    ASSERT_EQ(y.size(), x.size());
    EXPECT_TRUE(std::isnan(codec.decode(y[5])));
    EXPECT_EQ(codec.decode(y[6]), -std::numeric_limits<long double>::infinity());
    for (std::size_t i = 7; i < x.size(); ++i) {
      const double expected = -3.0 * static_cast<double>(codec.decode(x[i])) + 0.5;
      ASSERT_NEAR(static_cast<double>(codec.decode(y[i])), expected, 1.001 * precision * std::abs(expected) + 1e-6)
          << name_of(type) << " at " << i;
    }
  }
}

TEST_P(affine_operation, GivesEachFrameItsOwnNumbers) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f32, element_type::cf32, element_type::f64, element_type::f16}) {
    for (const std::int64_t length : {1, 7, 8, 1237}) {
      const element_codec codec{type == element_type::cf32 ? element_type::f32 : type};
      operation_case setup{.op = "affine", .settings = {}, .input = {.type = type, .shape = {length}}};
      setup.extent.frames = random.integer(1, 9);
      const std::size_t values = static_cast<std::size_t>(length) * (type == element_type::cf32 ? 2 : 1);
      for (std::int64_t frame = 0; frame < setup.extent.frames; ++frame) {
        setup.numbers.insert(setup.numbers.end(), {random.real(-3.0, 3.0), random.real(-3.0, 3.0)});
      }
      std::vector<std::uint64_t> x(values * static_cast<std::size_t>(setup.extent.frames));
      for (std::uint64_t& each : x) {
        each = codec.encode(static_cast<long double>(random.real(-100.0, 100.0)));
      }
      const auto y = codec.split(run<std::byte>(setup, codec.encode_all(x)));
      ASSERT_EQ(y.size(), x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double* const numbers = &setup.numbers[2 * (i / values)];
        const double b = type == element_type::cf32 && i % 2 == 1 ? 0.0 : numbers[1];
        const double product = numbers[0] * static_cast<double>(codec.decode(x[i]));
        const double share = type == element_type::f16 ? 0x1p-10 : type == element_type::f64 ? 4e-16 : 4e-7;
        ASSERT_NEAR(static_cast<double>(codec.decode(y[i])), product + b, share * (std::abs(product) + std::abs(b)))
            << setup.text() << " at " << i;
      }
    }
  }
}

TEST_P(affine_operation, ChangesNothingByDefault) {
  const std::vector<float> x{0.0F, -1.5F, 3e38F, 2e-38F, std::numeric_limits<float>::infinity()};
  const operation_case setup{.op = "affine", .settings = {}, .input = {.type = element_type::f32, .shape = {5}}};
  EXPECT_EQ(run<float>(setup, x), x);
}

TEST_P(affine_operation, LetsNanThrough) {
  const std::vector<float> x{1.0F, std::numeric_limits<float>::quiet_NaN(), 2.0F};
  const operation_case setup{.op = "affine", .settings = {}, .input = {.type = element_type::f32, .shape = {3}}};
  const auto y = run<float>(setup, x);
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 2.0F);
}

}  // namespace
}  // namespace penstock
