#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/random_input.hpp"
#include "tests/support/session_run.hpp"

namespace penstock {

using session_signals = std::vector<std::vector<float>>;

/// One signal for each session of `steps` steps; a fixed input takes whole frames, so these are rounded up.
[[nodiscard]] inline session_signals random_signals(random_input& random, const session_case& what,
                                                    const std::vector<std::int64_t>& steps, double mean = 0.0,
                                                    double deviation = 1.0) {
  const bool frames = what.traits().whole_frames;
  const std::int64_t unit = frames || what.input.variable ? 1 : what.input.shape.front();
  const std::size_t values = what.input_step_bytes() / sizeof(float);
  session_signals signals;
  for (const std::int64_t length : steps) {
    const auto whole = static_cast<std::size_t>((length + unit - 1) / unit * unit);
    signals.push_back(random.normal(whole * values, mean, deviation));
  }
  return signals;
}

/// Each value within `share` of the largest finite one; NaN and infinities where they are expected and nowhere else.
inline void expect_close(const std::vector<float>& got, const std::vector<double>& expected, double share,
                         const std::string& where) {
  ASSERT_EQ(got.size(), expected.size()) << where;
  double peak = 0.0;
  for (const double value : expected) {
    peak = std::isfinite(value) ? std::max(peak, std::abs(value)) : peak;
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      ASSERT_EQ(std::isnan(got[i]), std::isnan(expected[i])) << where << ", value " << i << " is " << got[i];
      ASSERT_FALSE(std::isfinite(got[i])) << where << ", value " << i;
    } else {
      ASSERT_NEAR(got[i], expected[i], share * peak) << where << ", value " << i << " of peak " << peak;
    }
  }
}

}  // namespace penstock
