#include "kernels/window.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

TEST(WindowFunction, HasTheValuesOfTheLiteratureAtItsQuarters) {
  struct row {
    window_function window;
    std::vector<double> values;
  };
  for (const row& known :
       {row{window_function::hann, {0.0, 0.5, 1.0, 0.5}}, row{window_function::hamming, {0.08, 0.54, 1.0, 0.54}},
        row{window_function::blackman, {0.0, 0.34, 1.0, 0.34}},
        row{window_function::rectangular, {1.0, 1.0, 1.0, 1.0}}}) {
    const auto w = window_coefficients(known.window, 4);
    ASSERT_EQ(w.size(), 4U);
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_NEAR(w[k], known.values[k], 1e-15) << k;
    }
  }
}

TEST(WindowFunction, IsPeriodic) {
  for (const auto window : {window_function::hann, window_function::hamming, window_function::blackman}) {
    for (const std::int64_t length : {2, 7, 1000}) {
      const auto w = window_coefficients(window, length);
      for (std::size_t k = 1; k < w.size(); ++k) {
        EXPECT_NEAR(w[k], w[w.size() - k], 1e-14) << length << ", " << k;
      }
    }
  }
}

TEST(WindowFunction, SumsToItsConstantTerm) {
  const auto w = window_coefficients(window_function::blackman, 999);
  EXPECT_NEAR(std::accumulate(w.begin(), w.end(), 0.0), 0.42 * 999, 1e-10);
}

TEST(WindowFunction, IsFoundByNameAndHannByDefault) {
  parameters settings;
  EXPECT_EQ(window_function_of(settings, "window"), window_function::hann);
  settings.set("window", std::string{"blackman"});
  EXPECT_EQ(window_function_of(settings, "window"), window_function::blackman);
  settings.set("window", std::string{"rectangular"});
  EXPECT_EQ(window_function_of(settings, "window"), window_function::rectangular);
  settings.set("window", std::string{"hamming"});
  EXPECT_EQ(window_function_of(settings, "window"), window_function::hamming);
  settings.set("window", std::string{"hann"});
  EXPECT_EQ(window_function_of(settings, "window"), window_function::hann);
}

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
    operation_case setup{.op = "window", .settings = {}, .input = random.fixed_row_spec(type, 1, 600)};
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    const std::string name = names[round % names.size()];
    setup.settings.set("window", name);
    const auto x = random.normal(values_in(setup.input, setup.extent));
    const auto y = run<float>(setup, x);
    ASSERT_EQ(y.size(), x.size());
    const auto length = static_cast<std::size_t>(setup.input.shape.back());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t k = (is_complex(type) ? i / 2 : i) % length;
      ASSERT_NEAR(y[i], weight(name, k, length) * x[i], 2e-7 * std::abs(x[i]))
          << name << ", " << setup.text() << " at " << i;
    }
  }
}

TEST_P(window_operation, IsHannByDefault) {
  const std::vector<float> x{1.0F, 1.0F, 1.0F, 1.0F};
  const operation_case setup{.op = "window", .settings = {}, .input = {.type = element_type::f32, .shape = {4}}};
  EXPECT_EQ(run<float>(setup, x), (std::vector<float>{0.0F, 0.5F, 1.0F, 0.5F}));
}

TEST_P(window_operation, KeepsNanWhereItIs) {
  const std::vector<float> x{1.0F, std::numeric_limits<float>::quiet_NaN(), 1.0F, 1.0F};
  const operation_case setup{.op = "window", .settings = {}, .input = {.type = element_type::f32, .shape = {4}}};
  const auto y = run<float>(setup, x);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 1.0F);
  EXPECT_EQ(y[3], 0.5F);
}

}  // namespace

}  // namespace penstock
