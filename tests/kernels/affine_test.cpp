#include <cmath>
#include <limits>

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
