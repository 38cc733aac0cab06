#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class detect_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(detect_operation);

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

struct thresholds {
  float high;
  float low;
  std::size_t most;
};

/// One row of the output by a walk through the samples: first all events, then their list.
std::vector<float> listed(const float* row, std::size_t length, const thresholds& limits) {
  std::vector<std::size_t> peaks;
  bool on = false;
  for (std::size_t i = 0; i < length; ++i) {
    const bool starts = !on && row[i] >= limits.high;
    if (starts) {
      peaks.push_back(i);
    }
    on = (on || starts) && !(row[i] < limits.low);
    if (on && row[i] > row[peaks.back()]) {
      peaks.back() = i;
    }
  }
  const std::size_t shown = std::min(peaks.size(), limits.most);
  std::vector<float> out{static_cast<float>(peaks.size()), static_cast<float>(shown)};
  for (std::size_t event = 0; event < limits.most; ++event) {
    out.push_back(event < shown ? static_cast<float>(peaks[event]) : -1.0F);
    out.push_back(event < shown ? row[peaks[event]] : 0.0F);
  }
  return out;
}

operation_case detection(const tensor_spec& input, const thresholds& limits) {
  operation_case setup{.op = "detect", .settings = {}, .input = input};
  setup.settings.set("high", static_cast<double>(limits.high));
  setup.settings.set("low", static_cast<double>(limits.low));
  setup.settings.set("max_events", static_cast<std::int64_t>(limits.most));
  return setup;
}

std::vector<float> listed_rows(const std::vector<float>& x, std::size_t length, const thresholds& limits) {
  std::vector<float> out;
  for (std::size_t first = 0; first < x.size(); first += length) {
    const std::vector<float> row = listed(&x[first], length, limits);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

std::vector<float> detect_row(const std::vector<float>& row, const thresholds& limits) {
  return listed(row.data(), row.size(), limits);
}

operation_case row_case(const std::vector<float>& row, const thresholds& limits) {
  return detection({.type = element_type::f32, .shape = {static_cast<std::int64_t>(row.size())}}, limits);
}

TEST_P(detect_operation, ListsTheEventsOfRandomRows) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 60; ++round) {
    const thresholds limits{.high = static_cast<float>(random.real(-1.0, 3.0)),
                            .low = -4.0F,
                            .most = static_cast<std::size_t>(random.integer(1, 80))};
    const thresholds chosen{limits.high, limits.high - static_cast<float>(random.coin() ? 0.0 : random.real(0.0, 3.0)),
                            limits.most};
    operation_case setup = detection(random.spec(element_type::f32, 1, random.coin() ? 100 : 5000), chosen);
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    auto x = random.normal(values_in(setup.input, setup.extent));
    for (std::int64_t spoilt = random.integer(0, 20); spoilt > 0; --spoilt) {
      x[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(x.size()) - 1))] = nan;
    }
    const std::int64_t length =
        setup.input.variable && setup.input.shape.size() == 1 ? setup.extent.leading : setup.input.shape.back();
    ASSERT_EQ(run<float>(setup, x), listed_rows(x, static_cast<std::size_t>(length), chosen)) << setup.text();
  }
}

TEST_P(detect_operation, ListsTheEventsOfLongRows) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t length : {2048, 2049, 8191, 8192, 8193, 100'001, 1'000'003}) {
    for (const double slowness : {0.0, 0.9, 0.9999}) {
      // Slow noise has events that go through many blocks.
      operation_case setup = detection({.type = element_type::f32, .shape = {length}}, {0.4F, -0.3F, 3000});
      setup.extent.frames = 2;
      auto x = random.normal(values_in(setup.input, setup.extent), 0.0, std::sqrt(1.0 - slowness * slowness));
      for (std::size_t i = 1; i < x.size(); ++i) {
        x[i] += static_cast<float>(slowness) * x[i - 1];
      }
      ASSERT_TRUE(run<float>(setup, x) == listed_rows(x, static_cast<std::size_t>(length), {0.4F, -0.3F, 3000}))
          << setup.text() << " slowness " << slowness;
    }
  }
}

TEST_P(detect_operation, FindsOneEventThatLastsAllOfALongRow) {
  std::vector<float> rising(300'000);
  for (std::size_t i = 0; i < rising.size(); ++i) {
    rising[i] = 1.0F + static_cast<float>(i);
  }
  for (const bool falls : {false, true}) {
    if (falls) {
      std::reverse(rising.begin(), rising.end());
    }
    const thresholds limits{1.0F, 0.5F, 2};
    EXPECT_EQ(run<float>(row_case(rising, limits), rising),
              (std::vector<float>{1, 1, falls ? 0.0F : 299'999.0F, 300'000, -1, 0}));
  }
}

TEST_P(detect_operation, ReportsTheFirstOfEqualPeaks) {
  std::vector<float> row(20'000, 0.5F);
  row[40] = 2.0F;
  row[17'000] = 2.0F;
  row[18'000] = 2.0F;
  const thresholds limits{1.0F, 0.5F, 1};
  EXPECT_EQ(run<float>(row_case(row, limits), row), (std::vector<float>{1, 1, 40, 2}));
  // A zero is equal to a negative one.
  const std::vector<float> zeros{-0.0F, 0.0F};
  EXPECT_EQ(run<float>(row_case(zeros, {0.0F, 0.0F, 1}), zeros), (std::vector<float>{1, 1, 0, 0}));
}

TEST_P(detect_operation, StartsAtHighAndEndsBelowLow) {
  const std::vector<float> row{1, 2, 1, 0.9F, 2, 3, 2, 1, 0, 2, -9, 1.9F, 2};
  const thresholds limits{2.0F, 1.0F, 5};
  EXPECT_EQ(run<float>(row_case(row, limits), row), (std::vector<float>{4, 4, 1, 2, 5, 3, 9, 2, 12, 2, -1, 0}));
}

TEST_P(detect_operation, TakesLowToBeHighByDefaultAndListsSixtyFour) {
  operation_case setup{.op = "detect", .settings = {}, .input = {.type = element_type::f32, .shape = {4}}};
  setup.settings.set("high", 1.0);
  const std::vector<float> row{1.0F, 0.99F, 1.0F, 2.0F};
  const auto y = run<float>(setup, row);
  EXPECT_EQ(y, detect_row(row, {1.0F, 1.0F, 64}));
  EXPECT_EQ(y[0], 2.0F);
  EXPECT_EQ(y.size(), 130U);
}

TEST_P(detect_operation, CountsTheEventsThatItHasNoRoomFor) {
  std::vector<float> row(50'000);
  for (std::size_t i = 0; i < row.size(); i += 2) {
    row[i] = 1.0F;
  }
  EXPECT_EQ(run<float>(row_case(row, {1.0F, 1.0F, 2}), row), (std::vector<float>{25'000, 2, 0, 1, 2, 1}));
  EXPECT_TRUE(run<float>(row_case(row, {1.0F, 1.0F, 65'536}), row) == detect_row(row, {1.0F, 1.0F, 65'536}));
}

TEST_P(detect_operation, TakesNanForNeitherSideAndInfinitiesAsSamples) {
  const std::vector<float> row{nan, 1, nan, 0.5F, infinity, nan, -infinity, nan, 3, nan, nan};
  EXPECT_EQ(run<float>(row_case(row, {1.0F, 0.5F, 3}), row), (std::vector<float>{2, 2, 4, infinity, 8, 3, -1, 0}));
}

TEST_P(detect_operation, KeepsTheEventsOfEachFrameToIt) {
  // The first row ends in an event, the next begins with a sample that would go on with it.
  operation_case setup = detection({.type = element_type::f32, .shape = {3}}, {2.0F, 1.0F, 1});
  setup.extent.frames = 3;
  const std::vector<float> rows{0, 2, 3, 1.5F, nan, 1.5F, 2, 0, 0};
  EXPECT_EQ(run<float>(setup, rows), (std::vector<float>{1, 1, 2, 3, 0, 0, -1, 0, 1, 1, 0, 2}));
}

TEST_P(detect_operation, GivesAnEmptyListForAVariableFrameWithoutSamples) {
  operation_case setup = detection({.type = element_type::f32, .shape = {10'000}, .variable = true}, {0.0F, 0.0F, 2});
  setup.extent = {.frames = 2, .leading = 0};
  EXPECT_EQ(run<float>(setup, std::vector<float>{}), (std::vector<float>{0, 0, -1, 0, -1, 0, 0, 0, -1, 0, -1, 0}));
}

}  // namespace
}  // namespace penstock
