#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class window_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(window_operation);

constexpr std::array<const char*, 4> names{"hann", "hamming", "blackman", "rectangular"};

/// From the textbook's half-angle forms, not from the product's table.
double weight(const std::string& name, std::size_t k, std::size_t length) {
  const double half = std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
  const double s = std::sin(half) * std::sin(half);
  if (name == "hann") {
    return s;
  }
  if (name == "hamming") {
    return 0.08 + 0.92 * s;
  }
  return name == "blackman" ? 0.36 * s + 0.64 * s * s : 1.0;
}

TEST_P(window_operation, WeighsEveryRowAlike) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (std::size_t round = 0; round < 16; ++round) {
    const element_type type = random.coin() ? element_type::f32 : element_type::cf32;
    operation_case what{.op = "window", .settings = {}, .input = random.fixed_row_spec(type, 1, 600)};
    what.extent = random.extent(what.input);
    what.spare_frames = random.integer(0, 3);
    const std::string name = names[round % names.size()];
    what.settings.set("window", name);
    const auto x = random.normal(values_in(what.input, what.extent));
    const auto y = run<float>(what, x);
    ASSERT_EQ(y.size(), x.size());
    const auto length = static_cast<std::size_t>(what.input.shape.back());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t k = (is_complex(type) ? i / 2 : i) % length;
      ASSERT_NEAR(y[i], weight(name, k, length) * x[i], 2e-7 * std::abs(x[i]))
          << name << ", " << what.text() << " at " << i;
    }
  }
}

TEST_P(window_operation, IsHannByDefault) {
  const std::vector<float> x{1.0F, 1.0F, 1.0F, 1.0F};
  const operation_case what{.op = "window", .settings = {}, .input = {.type = element_type::f32, .shape = {4}}};
  EXPECT_EQ(run<float>(what, x), (std::vector<float>{0.0F, 0.5F, 1.0F, 0.5F}));
}

TEST_P(window_operation, KeepsNanWhereItIs) {
  const std::vector<float> x{1.0F, std::numeric_limits<float>::quiet_NaN(), 1.0F, 1.0F};
  const operation_case what{.op = "window", .settings = {}, .input = {.type = element_type::f32, .shape = {4}}};
  const auto y = run<float>(what, x);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 1.0F);
  EXPECT_EQ(y[3], 0.5F);
}

}  // namespace
}  // namespace penstock
