#include <cmath>
#include <limits>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class magnitude_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(magnitude_operation);

TEST_P(magnitude_operation, MatchesFloat64OnAnyShape) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 16; ++round) {
    operation_case setup{.op = "magnitude", .settings = {}, .input = random.spec(element_type::cf32, 1, 700)};
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    const bool squared = random.coin();
    setup.settings.set("squared", squared);
    const auto z = random.normal(values_in(setup.input, setup.extent));
    const auto y = run<float>(setup, z);
    ASSERT_EQ(y.size(), z.size() / 2);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double length = std::hypot(static_cast<double>(z[2 * i]), static_cast<double>(z[2 * i + 1]));
      const double expected = squared ? length * length : length;
      ASSERT_NEAR(y[i], expected, 4e-7 * expected) << setup.text() << " at " << i;
    }
  }
}

TEST_P(magnitude_operation, IsExactOnPythagoreanTriples) {
  const std::vector<float> z{3.0F, 4.0F, -5.0F, 12.0F, 0.0F, -7.0F, 0.0F, 0.0F};
  operation_case setup{.op = "magnitude", .settings = {}, .input = {.type = element_type::cf32, .shape = {4}}};
  EXPECT_EQ(run<float>(setup, z), (std::vector<float>{5.0F, 13.0F, 7.0F, 0.0F}));
  setup.settings.set("squared", true);
  EXPECT_EQ(run<float>(setup, z), (std::vector<float>{25.0F, 169.0F, 49.0F, 0.0F}));
}

TEST_P(magnitude_operation, IsRightOverTheWholeRange) {
  random_input random;
  SCOPED_TRACE(random.trace());
  // Denormal parts count as zero (denormals_test).
  const auto part = [](double value) {
    return std::abs(value) < std::numeric_limits<float>::min() ? 0.0F : static_cast<float>(value);
  };
  std::vector<float> z{3e38F, 1e38F, 1.3e-38F, 1.2e-38F, 1e-21F, 1e-21F, 2e38F, 1.2e-38F, 3.4e38F, 0.0F, 0.0F, 2e-38F};
  for (int exponent = -36; exponent <= 37; ++exponent) {
    for (int each = 0; each < 8; ++each) {
      const double by = std::pow(10.0, exponent);
      z.push_back(part(by * random.real(-1.0, 1.0)));
      z.push_back(part(by * random.real(0.5, 1.0)));
    }
  }
  const operation_case setup{.op = "magnitude",
                             .settings = {},
                             .input = {.type = element_type::cf32, .shape = {static_cast<std::int64_t>(z.size() / 2)}}};
  const auto y = run<float>(setup, z);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double expected = std::hypot(static_cast<double>(z[2 * i]), static_cast<double>(z[2 * i + 1]));
    ASSERT_NEAR(y[i], expected, 4e-7 * expected) << z[2 * i] << ", " << z[2 * i + 1];
  }
}

TEST_P(magnitude_operation, MakesNanOfNanInEitherPart) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> z{nan, 1.0F, 1.0F, nan, 1.0F, 0.0F, -infinity, 1.0F};
  const operation_case setup{.op = "magnitude", .settings = {}, .input = {.type = element_type::cf32, .shape = {4}}};
  const auto y = run<float>(setup, z);
  EXPECT_EQ(y[3], infinity);
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 1.0F);
}

}  // namespace
}  // namespace penstock
