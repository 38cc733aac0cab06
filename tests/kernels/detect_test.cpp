#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

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

TEST_P(detect_operation, GivesEachFrameItsOwnThresholds) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t length : {1, 33, 2048, 20'011}) {
    for (const std::int64_t rows : {1, 3}) {
      operation_case setup = detection({.type = element_type::f32, .shape = {rows, length}}, {9.0F, 8.0F, 5});
      setup.extent.frames = random.integer(2, 5);
      const auto x = random.normal(values_in(setup.input, setup.extent));
      std::vector<float> expected;
      for (std::int64_t frame = 0; frame < setup.extent.frames; ++frame) {
        const auto high = static_cast<float>(random.real(-1.0, 3.0));
        const thresholds own{high, high - static_cast<float>(random.real(0.0, 2.0)), 5};
        setup.numbers.insert(setup.numbers.end(), {static_cast<double>(own.high), static_cast<double>(own.low)});
        const auto first = x.begin() + frame * rows * length;
        const std::vector<float> listed =
            listed_rows({first, first + rows * length}, static_cast<std::size_t>(length), own);
        expected.insert(expected.end(), listed.begin(), listed.end());
      }
      EXPECT_EQ(run<float>(setup, x), expected) << setup.text();
    }
  }
}

struct event_limits {
  float high = 1.0F;
  float low = 0.5F;
  std::int64_t gap = 0;
  std::int64_t min_length = 1;
};

using event_row = std::array<double, 4>;

/// The events of one channel of a whole session: first all that the thresholds make, then joined, then those that are
/// long enough and over before the session is.
std::vector<event_row> events_of(const std::vector<float>& x, std::size_t channels, std::size_t channel,
                                 const event_limits& limits) {
  const std::size_t steps = x.size() / channels;
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  bool on = false;
  for (std::size_t n = 0; n < steps; ++n) {
    const float value = x[n * channels + channel];
    if (!on && value >= limits.high) {
      spans.emplace_back(n, steps);
      on = true;
    } else if (on && value < limits.low) {
      spans.back().second = n;
      on = false;
    }
  }
  const auto gap = static_cast<std::size_t>(limits.gap);
  for (std::size_t next = 1; next < spans.size();) {
    if (spans[next].first - spans[next - 1].second <= gap) {
      spans[next - 1].second = spans[next].second;
      spans.erase(spans.begin() + static_cast<std::ptrdiff_t>(next));
    } else {
      ++next;
    }
  }
  std::vector<event_row> events;
  for (const auto& [start, end] : spans) {
    if (end + gap >= steps || end - start < static_cast<std::size_t>(limits.min_length)) {
      continue;
    }
    std::size_t peak = start;
    for (std::size_t n = start; n < end; ++n) {
      peak = x[n * channels + channel] > x[peak * channels + channel] ? n : peak;
    }
    events.push_back({static_cast<double>(start), static_cast<double>(end), static_cast<double>(peak),
                      static_cast<double>(x[peak * channels + channel])});
  }
  return events;
}

class detect_session_operation : public session_test {
 protected:
  session_case make(const event_limits& limits, tensor_spec input, std::int64_t most) {
    session_case setup{.op = "detect", .settings = {}, .input = std::move(input)};
    setup.settings.set("high", static_cast<double>(limits.high));
    setup.settings.set("low", static_cast<double>(limits.low));
    setup.settings.set("along", std::string{"session"});
    setup.settings.set("gap", limits.gap);
    setup.settings.set("min_length", limits.min_length);
    setup.settings.set("max_events", most);
    setup.seed = static_cast<std::uint64_t>(random_.integer(1, 1'000'000'000));
    setup.least_steps = random_.integer(0, 1);
    return setup;
  }

  /// The events that the frames of a session tell, one after the other, of one channel.
  static std::vector<event_row> told(const std::vector<double>& results, const session_case& setup,
                                     std::size_t channel) {
    const std::size_t frame = setup.output_step_bytes() / sizeof(double);
    const auto channels = setup.input_step_bytes() / sizeof(float);
    const std::size_t each = frame / channels;
    std::vector<event_row> events;
    for (std::size_t first = channel * each; first < results.size(); first += frame) {
      const double* const row = &results[first];
      EXPECT_EQ(row[1], std::min(row[0], static_cast<double>(each / 4 - 1)));
      for (std::size_t event = 1; event < each / 4; ++event) {
        const event_row got{row[4 * event], row[4 * event + 1], row[4 * event + 2], row[4 * event + 3]};
        if (static_cast<double>(event) <= row[1]) {
          events.push_back(got);
        } else {
          EXPECT_EQ(got, (event_row{-1.0, -1.0, -1.0, 0.0}));
        }
      }
    }
    return events;
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(detect_session_operation);

TEST_P(detect_session_operation, TellsEachEventOnceHoweverTheSessionIsCut) {
  SCOPED_TRACE(random_.trace());
  const std::array<event_limits, 5> all{{{},
                                         {.gap = 3},
                                         {.gap = 40, .min_length = 9},
                                         {.low = 1.0F, .min_length = 2},
                                         {.high = 0.1F, .low = -1.5F, .gap = 1}}};
  for (const event_limits& limits : all) {
    for (const std::int64_t channels : {1, 3, 64}) {
      for (const std::int64_t length : {1, 7, 100}) {
        session_case setup =
            make(limits, {.type = element_type::f32, .shape = {length, channels}, .variable = true}, length / 2 + 2);
        session_signals signals = random_signals(random_, setup, {1, 500, 1003});
        for (std::vector<float>& signal : signals) {
          for (std::size_t at = 0; at < signal.size(); at += 37) {
            signal[at] = nan;
          }
          signal[signal.size() / 2] = infinity;
          signal[signal.size() / 3] = -infinity;
        }
        const auto results = run<double>(setup, signals);
        for (std::size_t session = 0; session < signals.size(); ++session) {
          for (std::size_t channel = 0; channel < static_cast<std::size_t>(channels); ++channel) {
            ASSERT_EQ(told(results[session], setup, channel),
                      events_of(signals[session], static_cast<std::size_t>(channels), channel, limits))
                << setup.text() << ", gap " << limits.gap << ", min_length " << limits.min_length << ", session "
                << session << ", channel " << channel;
          }
        }
      }
    }
  }
}

// By a walk through the samples, each with its own thresholds.
TEST_P(detect_session_operation, ComparesEachSampleWithTheThresholdsOfItsFrame) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t channels : {1, 5}) {
    session_case setup = make({}, {.type = element_type::f32, .shape = {40, channels}, .variable = true}, 41);
    setup.least_steps = 1;
    const session_signals signals = random_signals(random_, setup, {400, 1003});
    std::vector<std::vector<thresholds>> limits(signals.size());
    setup.numbers = [&](std::size_t session, std::int64_t step) {
      const auto high = static_cast<float>(random_.real(-0.5, 2.0));
      const thresholds own{high, high - static_cast<float>(random_.real(0.0, 2.0)), 0};
      limits[session].resize(static_cast<std::size_t>(step), own);
      limits[session].resize(signals[session].size() / static_cast<std::size_t>(channels), own);
      return std::vector<double>{static_cast<double>(own.high), static_cast<double>(own.low)};
    };
    const auto results = run<double>(setup, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      for (std::size_t channel = 0; channel < static_cast<std::size_t>(channels); ++channel) {
        std::vector<event_row> expected;
        event_row event{-1.0, -1.0, -1.0, 0.0};
        for (std::size_t n = 0; n < limits[session].size(); ++n) {
          const auto value = static_cast<double>(signals[session][n * static_cast<std::size_t>(channels) + channel]);
          const auto sample = static_cast<double>(n);
          if (event[0] < 0.0 ? value >= static_cast<double>(limits[session][n].high)
                             : value >= static_cast<double>(limits[session][n].low)) {
            event[0] = event[0] < 0.0 ? sample : event[0];
            if (event[2] < 0.0 || value > event[3]) {
              event[2] = sample;
              event[3] = value;
            }
          } else if (event[0] >= 0.0) {
            event[1] = sample;
            expected.push_back(event);
            event = {-1.0, -1.0, -1.0, 0.0};
          }
        }
        ASSERT_EQ(told(results[session], setup, channel), expected) << session << ", " << channel;
      }
    }
  }
}

TEST_P(detect_session_operation, CountsSamplesBeyondWhatThirtyTwoBitsHold) {
  SCOPED_TRACE(random_.trace());
  const event_limits limits{.gap = 2};
  session_case setup = make(limits, {.type = element_type::f32, .shape = {50, 2}, .variable = true}, 60);
  setup.least_steps = 1;
  setup.max_frames = 1;  // so that the session is old before its signal begins
  setup.age = std::int64_t{3} << 40U;
  setup.aged_from = 1;
  session_signals signals = random_signals(random_, setup, {700});
  std::fill_n(signals[0].begin(), 2 * 60, 0.0F);
  const auto results = run<double>(setup, signals);
  for (const std::size_t channel : {0U, 1U}) {
    std::vector<event_row> expected = events_of(signals[0], 2, channel, limits);
    for (event_row& event : expected) {
      for (std::size_t number = 0; number < 3; ++number) {
        event[number] += static_cast<double>(setup.age);
      }
    }
    EXPECT_EQ(told(results[0], setup, channel), expected);
  }
}

TEST_P(detect_session_operation, TellsWhatIsUnderWayAndHowManyItDoesNotList) {
  const session_case setup = make({}, {.type = element_type::f32, .shape = {8}}, 2);
  const std::vector<float> signal{2, 0, 3, 0, 4, 0, 1, 5, 0.5F, 0.75F, 6, 7, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};
  const auto results = run<double>(setup, session_signals{signal});
  const std::vector<double> expected{3,  2, 6,  5,  0,  1, 0, 2, 2,  3, 2, 3,  0,  0, 6,  7,  -1, -1,
                                     -1, 0, -1, -1, -1, 0, 1, 1, -1, 0, 6, 16, 11, 7, -1, -1, -1, 0};
  EXPECT_EQ(results[0], expected);
}

}  // namespace
}  // namespace penstock
