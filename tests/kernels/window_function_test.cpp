#include "kernels/window_function.hpp"

#include <numeric>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace penstock
