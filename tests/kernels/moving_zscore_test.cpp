#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/kernels/operation_test.hpp"

namespace penstock {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

struct scoring {
  std::int64_t window = 256;
  double floor = 1e-4;
  std::int64_t gap = 0;
  double hold = std::numeric_limits<double>::infinity();
  bool relative = false;  ///< the floor that stands where none is given
  std::string on_nan = "spread";
};

/// Two passes over each window, in float64.
std::vector<double> two_pass(const std::vector<float>& v, std::size_t channels, const scoring& rule) {
  const auto window = static_cast<std::size_t>(rule.window);
  std::vector<double> z(v.size(), 0.0);
  for (std::size_t at = window * channels; at < v.size(); ++at) {
    double sum = 0.0;
    for (std::size_t back = 1; back <= window; ++back) {
      sum += static_cast<double>(v[at - back * channels]);
    }
    const double mean = sum / static_cast<double>(window);
    double squares = 0.0;
    for (std::size_t back = 1; back <= window; ++back) {
      const double difference = static_cast<double>(v[at - back * channels]) - mean;
      squares += difference * difference;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(window));
    z[at] = (static_cast<double>(v[at]) - mean) / (deviation < rule.floor ? rule.floor : deviation);
  }
  return z;
}

/// What the window holds as the definition says it, and two passes over it at each step, in float64.
std::vector<double> held_two_pass(const std::vector<float>& v, std::size_t channels, const scoring& rule) {
  const std::size_t steps = v.size() / channels;
  const auto gap = static_cast<std::size_t>(rule.gap);
  const auto window = static_cast<std::size_t>(rule.window);
  std::vector<double> z(v.size(), 0.0);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    std::vector<double> came;
    std::vector<bool> above(steps, false);
    std::size_t begin = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      const auto value = static_cast<double>(v[step * channels + channel]);
      if (rule.on_nan != "spread" && !std::isfinite(value)) {
        z[step * channels + channel] = static_cast<double>(nan);
        above[step] = true;
        if (rule.on_nan == "reset") {
          came.clear();
          begin = step + 1;
        }
        continue;
      }
      if (came.size() >= window) {
        double sum = 0.0;
        for (std::size_t at = came.size() - window; at < came.size(); ++at) {
          sum += came[at];
        }
        const double mean = sum / static_cast<double>(window);
        double squares = 0.0;
        for (std::size_t at = came.size() - window; at < came.size(); ++at) {
          squares += (came[at] - mean) * (came[at] - mean);
        }
        const double floor = !rule.relative         ? rule.floor
                             : std::isfinite(value) ? std::max(1e-300, 1e-6 * std::max(std::abs(mean), std::abs(value)))
                                                    : 1.0;
        const double deviation = std::sqrt(squares / static_cast<double>(window));
        z[step * channels + channel] = (value - mean) / (deviation < floor ? floor : deviation);
      }
      above[step] = std::abs(z[step * channels + channel]) > rule.hold;
      if (step >= begin + gap && !above[step] && !above[step - gap]) {
        came.push_back(static_cast<double>(v[(step - gap) * channels + channel]));
      }
    }
  }
  return z;
}

class moving_zscore_operation : public session_test {
 protected:
  session_case make(const scoring& rule, tensor_spec input) {
    session_case setup{.op = "moving_zscore", .settings = {}, .input = std::move(input)};
    setup.settings.set("window", rule.window);
    if (!rule.relative) {
      setup.settings.set("floor", rule.floor);
    }
    if (rule.gap > 0) {
      setup.settings.set("gap", rule.gap);
    }
    if (!std::isinf(rule.hold)) {
      setup.settings.set("hold", rule.hold);
    }
    if (rule.on_nan != "spread") {
      setup.settings.set("on_nan", rule.on_nan);
    }
    setup.seed = static_cast<std::uint64_t>(random_.integer(1, 1'000'000'000));
    setup.least_steps = random_.integer(0, 1);
    return setup;
  }

  void expect_scores(const session_case& setup, const scoring& rule, const session_signals& signals) {
    const auto scores = run<float>(setup, signals);
    const std::size_t channels = setup.input_step_bytes() / sizeof(float);
    ASSERT_EQ(scores.size(), signals.size());
    for (std::size_t session = 0; session < signals.size(); ++session) {
      ASSERT_NO_FATAL_FAILURE(expect_close(
          scores[session], two_pass(signals[session], channels, rule), 1e-5,
          setup.text() + ", window " + std::to_string(rule.window) + ", session " + std::to_string(session)));
    }
  }

  /// f32 frames of so many steps, of one dimension or of several channels, fixed or "max N".
  tensor_spec any_input(std::int64_t steps) {
    static constexpr std::int64_t channels[] = {1, 2, 3, 5, 11, 40};
    tensor_spec input{.type = element_type::f32, .shape = {steps}, .variable = random_.coin()};
    const std::int64_t chosen = channels[random_.integer(0, 5)];
    if (chosen > 1 || random_.coin()) {
      input.shape.push_back(chosen);
    }
    return input;
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(moving_zscore_operation);

TEST_P(moving_zscore_operation, MatchesTwoPassesHoweverTheSessionsAreCut) {
  SCOPED_TRACE(random_.trace());
  for (int round = 0; round < 40; ++round) {
    const scoring rule{.window = round % 4 == 0 ? random_.integer(2, 9) : random_.integer(2, 300)};
    const session_case setup = make(rule, any_input(random_.integer(1, round % 2 == 0 ? 40 : 600)));
    const auto signals = random_signals(random_, setup, {random_.integer(1, 1500), rule.window - 1, 700}, 3.0);
    ASSERT_NO_FATAL_FAILURE(expect_scores(setup, rule, signals));
  }
}

TEST_P(moving_zscore_operation, MatchesTwoPassesInFramesLongerThanAnyTile) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t window : {2, 3, 256, 1000, 2048, 2500}) {
    const session_case setup = make({.window = window}, {.type = element_type::f32, .shape = {9000}, .variable = true});
    ASSERT_NO_FATAL_FAILURE(expect_scores(setup, {.window = window}, random_signals(random_, setup, {11000, 3000})));
  }
}

TEST_P(moving_zscore_operation, MatchesTwoPassesWhereTheWindowIsLongerThanFrames) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t window : {4096, 5001, 65536}) {
    for (const std::int64_t channels : {1, 3}) {
      const session_case setup =
          make({.window = window}, {.type = element_type::f32, .shape = {1500, channels}, .variable = true});
      const std::int64_t steps = window + (window > 10000 ? 400 : 2000);
      ASSERT_NO_FATAL_FAILURE(expect_scores(setup, {.window = window}, random_signals(random_, setup, {steps, 4000})));
    }
  }
}

TEST_P(moving_zscore_operation, StaysAccurateWhereTheMeanIsLargeAgainstTheDeviation) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t channels : {1, 3}) {
    const scoring rule{.window = 256};
    const session_case setup = make(rule, {.type = element_type::f32, .shape = {700, channels}, .variable = true});
    auto signals = random_signals(random_, setup, {4000, 2500}, 100.0, 0.01);
    // A level of a million, and back: neither may blur what comes after it.
    for (std::size_t i = 900; i < 2100; ++i) {
      signals[1][i] += 1e6F;
    }
    ASSERT_NO_FATAL_FAILURE(expect_scores(setup, rule, signals));
  }
}

TEST_P(moving_zscore_operation, TakesTheFloorForADeviationBelowIt) {
  SCOPED_TRACE(random_.trace());
  const scoring rule{.window = 100, .floor = 0.5};
  const session_case setup = make(rule, {.type = element_type::f32, .shape = {300, 3}, .variable = true});
  auto signals = random_signals(random_, setup, {1500, 900}, 0.25, 0.01);
  std::fill(signals[1].begin(), signals[1].end(), 7.0F);
  signals[1][2000] = 8.0F;
  ASSERT_NO_FATAL_FAILURE(expect_scores(setup, rule, signals));
  EXPECT_FLOAT_EQ(run<float>(setup, signals)[1][2000], 2.0F);
}

TEST_P(moving_zscore_operation, IsZeroUntilTheWindowIsFull) {
  SCOPED_TRACE(random_.trace());
  const session_case setup = make({.window = 50}, {.type = element_type::f32, .shape = {20, 3}, .variable = true});
  const auto scores = run<float>(setup, random_signals(random_, setup, {51, 50}, 5.0));
  EXPECT_EQ(std::vector<float>(scores[0].begin(), scores[0].begin() + 150), std::vector<float>(150, 0.0F));
  EXPECT_NE(scores[0][150], 0.0F);
  EXPECT_EQ(scores[1], std::vector<float>(150, 0.0F));
}

TEST_P(moving_zscore_operation, LosesOnlyTheWindowsThatHoldANanOrAnInfinity) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t channels : {1, 3}) {
    for (const float poison : {nan, infinity, -infinity}) {
      const scoring rule{.window = 64};
      const session_case setup = make(rule, {.type = element_type::f32, .shape = {200, channels}, .variable = true});
      auto signals = random_signals(random_, setup, {1000, 1000, 1000});
      signals[1][static_cast<std::size_t>(300 * channels)] = poison;
      signals[1][static_cast<std::size_t>(10 * channels + channels - 1)] = poison;
      ASSERT_NO_FATAL_FAILURE(expect_scores(setup, rule, signals));
    }
  }
}

TEST_P(moving_zscore_operation, ForgetsAHugeValueWithItsStep) {
  SCOPED_TRACE(random_.trace());
  const scoring rule{.window = 64};
  const session_case setup = make(rule, {.type = element_type::f32, .shape = {200}, .variable = true});
  auto signals = random_signals(random_, setup, {1000});
  signals[0][300] = 1e30F;
  auto scores = run<float>(setup, signals);
  auto expected = two_pass(signals[0], 1, rule);
  EXPECT_NEAR(scores[0][300] / expected[300], 1.0, 1e-5);
  scores[0][300] = 0.0F;
  expected[300] = 0.0;
  ASSERT_NO_FATAL_FAILURE(expect_close(scores[0], expected, 1e-5, setup.text()));
}

TEST_P(moving_zscore_operation, FlagsTheStepsBeyondTheThreshold) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t channels : {1, 3}) {
    const scoring rule{.window = 100};
    session_case setup = make(rule, {.type = element_type::f32, .shape = {250, channels}, .variable = true});
    setup.settings.set("output", std::string{"flags"});
    setup.settings.set("threshold", 1.5);
    auto signals = random_signals(random_, setup, {3000, 99});
    signals[0][1000] = nan;
    signals[0][2000] = infinity;
    const auto flags = run<std::uint8_t>(setup, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      const auto z = two_pass(signals[session], static_cast<std::size_t>(channels), rule);
      ASSERT_EQ(flags[session].size(), z.size());
      std::size_t compared = 0;
      for (std::size_t i = 0; i < z.size(); ++i) {
        if (!(std::abs(std::abs(z[i]) - 1.5) < 1e-3)) {
          ASSERT_EQ(flags[session][i], std::abs(z[i]) > 1.5 ? 1 : 0) << setup.text() << ", value " << i;
          ++compared;
        }
      }
      EXPECT_GT(compared, z.size() * 9 / 10);
    }
  }
}

TEST_P(moving_zscore_operation, HoldsItsWindowAndLeavesAGapHoweverTheSessionsAreCut) {
  SCOPED_TRACE(random_.trace());
  for (const auto& [gap, hold] : {std::pair{0, 3.0}, {7, 3.0}, {40, 1e30}, {150, 2.5}}) {
    for (const std::int64_t window : {2, 33, 200}) {
      const scoring rule{.window = window, .gap = gap, .hold = hold};
      const session_case setup = make(rule, any_input(300));
      const std::size_t channels = setup.input_step_bytes() / sizeof(float);
      auto signals = random_signals(random_, setup, {1500, 900, 100}, 20.0);
      // A fault that comes slowly and stays, a short one, and what no window should keep.
      for (std::size_t step = 700; step < 1200; ++step) {
        signals[0][step * channels] += std::min(30.0F, 0.5F * static_cast<float>(step - 700));
      }
      signals[0][450 * channels] = 1e6F;
      signals[1][500 * channels] = infinity;
      signals[1][20 * channels] = nan;
      const auto scores = run<float>(setup, signals);
      for (std::size_t session = 0; session < signals.size(); ++session) {
        const auto expected = held_two_pass(signals[session], channels, rule);
        ASSERT_EQ(scores[session].size(), expected.size());
        for (std::size_t at = 0; at < expected.size(); ++at) {
          const auto got = static_cast<double>(scores[session][at]);
          const std::string where = setup.text() + ", window " + std::to_string(window) + ", gap " +
                                    std::to_string(gap) + ", session " + std::to_string(session) + " at " +
                                    std::to_string(at);
          if (std::isfinite(expected[at])) {
            ASSERT_NEAR(got, expected[at], 1e-5 * (1.0 + std::abs(expected[at]))) << where;
          } else {
            ASSERT_EQ(std::isnan(got), std::isnan(expected[at])) << where;
          }
        }
      }
    }
  }
}

TEST_P(moving_zscore_operation, GoesOnBehindBillionsOfSteps) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t earlier : {(std::int64_t{3} << 31U) + 5, (std::int64_t{1} << 53U) + 7}) {
    for (const scoring& rule :
         {scoring{.window = 100}, scoring{.window = 33, .gap = 7}, scoring{.window = 64, .hold = 3.0},
          scoring{.window = 20, .gap = 5, .hold = 3.0}, scoring{.window = 20, .on_nan = "reset"},
          scoring{.window = 30, .gap = 3, .on_nan = "hold"}}) {
      session_case setup = make(rule, {.type = element_type::f32, .shape = {50, 3}, .variable = true});
      // The window is full before the session is old. States keep late steps by their number modulo the gap.
      setup.aged_from = rule.window + rule.gap;
      setup.age = rule.gap > 0 ? earlier / rule.gap * rule.gap : earlier;
      session_signals signals = random_signals(random_, setup, {1500, 700}, 20.0);
      signals[0][3 * 1000] = rule.on_nan == "spread" ? 1e3F : nan;
      const auto scores = run<float>(setup, signals);
      for (std::size_t session = 0; session < signals.size(); ++session) {
        ASSERT_NO_FATAL_FAILURE(expect_close(scores[session], held_two_pass(signals[session], 3, rule), 1e-5,
                                             setup.text() + ", window " + std::to_string(rule.window) + ", gap " +
                                                 std::to_string(rule.gap) + ", from step " +
                                                 std::to_string(setup.age)));
      }
    }
  }
}

TEST_P(moving_zscore_operation, GoesOnSeeingAFaultThatLasts) {
  SCOPED_TRACE(random_.trace());
  const session_case setup =
      make({.window = 200, .gap = 20, .hold = 4.0}, {.type = element_type::f32, .shape = {500}, .variable = true});
  auto signals = random_signals(random_, setup, {8000});
  for (std::size_t step = 1000; step < 7000; ++step) {
    signals[0][step] = signals[0][step] * 0.1F + std::min(20.0F, 0.2F * static_cast<float>(step - 1000));
  }
  const auto scores = run<float>(setup, signals)[0];
  for (std::size_t step = 1110; step < 7000; ++step) {
    ASSERT_GT(scores[step], 10.0F) << "step " << step;
  }
  double sum = 0.0;
  for (std::size_t step = 7000; step < 8000; ++step) {
    sum += std::abs(static_cast<double>(scores[step]));
  }
  EXPECT_LT(sum / 1000.0, 1.5);
}

TEST_P(moving_zscore_operation, ForgetsInAHeldWindowWhatHasLeftIt) {
  SCOPED_TRACE(random_.trace());
  const scoring rule{.window = 64, .gap = 1};
  const session_case setup = make(rule, {.type = element_type::f32, .shape = {200}, .variable = true});
  auto signals = random_signals(random_, setup, {1200});
  signals[0][30] = 1e30F;
  for (std::size_t step = 600; step < 800; ++step) {
    signals[0][step] = 1e5F + 0.01F * static_cast<float>(step % 3);
  }
  const auto scores = run<float>(setup, signals)[0];
  const auto expected = held_two_pass(signals[0], 1, rule);
  for (std::size_t at = 0; at < expected.size(); ++at) {
    ASSERT_NEAR(scores[at], expected[at], 1e-5 * (1.0 + std::abs(expected[at]))) << "step " << at;
  }
}

TEST_P(moving_zscore_operation, ScoresAlikeInAnyUnit) {
  SCOPED_TRACE(random_.trace());
  for (const double hold : {std::numeric_limits<double>::infinity(), 50.0}) {
    const scoring rule{.window = 100, .hold = hold, .relative = true};
    const session_case setup = make(rule, {.type = element_type::f32, .shape = {300}, .variable = true});
    const auto plain = random_signals(random_, setup, {1000}, 0.0)[0];
    for (const float unit : {1.0F, 1e-5F, 1e-21F, 1e15F}) {
      session_signals signals{plain};
      for (float& value : signals[0]) {
        value *= unit;
      }
      const auto scores = run<float>(setup, signals)[0];
      const auto expected = held_two_pass(plain, 1, rule);
      for (std::size_t at = 0; at < expected.size(); ++at) {
        ASSERT_NEAR(scores[at], expected[at], 1e-4 * (1.0 + std::abs(expected[at]))) << unit << ", step " << at;
      }
    }
    session_signals still{std::vector<float>(300)};
    still[0][200] = 1e-20F;
    const auto scores = run<float>(setup, still)[0];
    EXPECT_EQ(scores[150], 0.0F);
    EXPECT_NEAR(scores[200], 1e6, 1.0);
  }
}

TEST(MovingZscore, GoesAlongStepsAndKeepsTheirNumber) {
  parameters settings;
  settings.set("window", std::int64_t{256});
  const tensor_spec input{.type = element_type::f32, .shape = {8, 2}, .variable = true};
  const operator_definition& definition = *find_operator("moving_zscore");
  EXPECT_EQ(definition.infer(settings, std::span{&input, 1}), input);
  const session_traits traits = *definition.session(settings, std::span{&input, 1});
  EXPECT_FALSE(traits.whole_frames);
  EXPECT_EQ(traits.rate, step_rate{});
  settings.set("output", std::string{"flags"});
  EXPECT_EQ(definition.infer(settings, std::span{&input, 1}),
            (tensor_spec{.type = element_type::u8, .shape = {8, 2}, .variable = true}));
}

TEST(MovingZscore, RefusesWhatItCannotDo) {
  const tensor_spec input{.type = element_type::f32, .shape = {8}};
  const auto with = [](const char* key, parameters::value value) {
    parameters settings;
    settings.set("window", std::int64_t{256});
    settings.set(key, std::move(value));
    return settings;
  };
  expect_refused("moving_zscore", {}, {input}, "window", "is missing");
  expect_refused("moving_zscore", with("window", std::int64_t{1}), {input}, "window", "from 2 to 65536");
  expect_refused("moving_zscore", with("window", std::int64_t{65537}), {input}, "window", "from 2 to 65536");
  expect_refused("moving_zscore", with("window", 2.5), {input}, "window", "an integer");
  expect_refused("moving_zscore", with("floor", 0.0), {input}, "floor", "above 0");
  expect_refused("moving_zscore", with("floor", static_cast<double>(nan)), {input}, "floor", "above 0");
  expect_refused("moving_zscore", with("output", std::string{"both"}), {input}, "output", "\"score\" or \"flags\"");
  expect_refused("moving_zscore", with("threshold", 3.0), {input}, "threshold", "\"flags\"");
  expect_refused("moving_zscore", with("gap", std::int64_t{-1}), {input}, "gap", "from 0 to 65536");
  expect_refused("moving_zscore", with("hold", 0.0), {input}, "hold", "above 0");
  parameters flags = with("output", std::string{"flags"});
  flags.set("threshold", -1.0);
  expect_refused("moving_zscore", flags, {input}, "threshold", "above 0");
  expect_refused("moving_zscore", with("floor", 1.0), {{.type = element_type::cf32, .shape = {8}}}, "from",
                 "takes f32, not cf32[8]");
}

TEST_P(moving_zscore_operation, GoesOnBehindInvalidSamplesWhereAsked) {
  SCOPED_TRACE(random_.trace());
  for (const std::string on_nan : {"reset", "hold"}) {
    for (const std::int64_t gap : {0, 1, 7}) {
      for (const bool holds : {false, true}) {
        scoring rule{.window = random_.integer(2, 40), .floor = 1e-4, .gap = gap};
        rule.hold = holds ? 3.0 : rule.hold;
        rule.on_nan = on_nan;
        session_case setup = make(rule, any_input(60));
        session_signals signals = random_signals(random_, setup, {1, 900, 400}, 2.0);
        random_.spoil(signals[1]);
        const auto scores = run<float>(setup, signals);
        setup.settings.set("output", std::string("flags"));
        setup.settings.set("threshold", 2.5);
        const auto flags = run<std::uint8_t>(setup, signals);
        const std::size_t channels = setup.input_step_bytes() / sizeof(float);
        for (std::size_t session = 0; session < signals.size(); ++session) {
          const auto expected = held_two_pass(signals[session], channels, rule);
          ASSERT_NO_FATAL_FAILURE(expect_close(scores[session], expected, 1e-5,
                                               setup.text() + ", " + on_nan + ", gap " + std::to_string(gap)));
          for (std::size_t at = 0; at < expected.size(); ++at) {
            if (!(std::abs(std::abs(expected[at]) - 2.5) < 1e-4)) {
              ASSERT_EQ(flags[session][at] != 0, std::abs(expected[at]) > 2.5) << setup.text() << " at " << at;
            }
          }
        }
      }
    }
  }
}

TEST_P(moving_zscore_operation, GivesEachSessionItsOwnThreshold) {
  for (const bool holds : {false, true}) {
    for (const std::int64_t gap : {0, 3}) {
      scoring rule{.window = 20, .floor = 1e-4, .gap = gap};
      rule.hold = holds ? 1e9 : rule.hold;
      session_case setup = make(rule, any_input(60));
      setup.settings.set("output", std::string("flags"));
      const session_signals signals = random_signals(random_, setup, {500, 10, 777, 300});
      std::vector<double> levels;
      std::vector<std::vector<double>> numbers;
      for (std::size_t session = 0; session < signals.size(); ++session) {
        levels.push_back(random_.real(0.3, 3.0));
        numbers.push_back(holds ? std::vector<double>{random_.real(1.0, 4.0), levels.back()}
                                : std::vector<double>{levels.back()});
      }
      setup.numbers = [&](std::size_t session, std::int64_t /*step*/) { return numbers[session]; };
      const auto flags = run<std::uint8_t>(setup, signals);
      const std::size_t channels = setup.input_step_bytes() / sizeof(float);
      for (std::size_t session = 0; session < signals.size(); ++session) {
        rule.hold = holds ? numbers[session].front() : rule.hold;
        const std::vector<double> scores = holds || gap > 0 ? held_two_pass(signals[session], channels, rule)
                                                            : two_pass(signals[session], channels, rule);
        ASSERT_EQ(flags[session].size(), scores.size());
        for (std::size_t at = 0; at < scores.size(); ++at) {
          if (std::abs(std::abs(scores[at]) - levels[session]) > 1e-4) {
            ASSERT_EQ(flags[session][at] != 0, std::abs(scores[at]) > levels[session])
                << setup.text() << ", session " << session << " at " << at << ": " << scores[at];
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock
