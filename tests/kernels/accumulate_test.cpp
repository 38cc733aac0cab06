#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/kernels/operation_test.hpp"

namespace penstock {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct accumulation {
  std::int64_t frames = 4;
  bool peak = false;
  bool rows = false;
  std::int64_t every = 1;
  std::string on_nan = "spread";
};

/// Each window on its own, in float64.
std::vector<double> window_by_window(const std::vector<float>& x, std::size_t channels, const accumulation& window) {
  std::vector<double> y;
  for (std::size_t at = 0; at < x.size(); ++at) {
    if ((at / channels + 1) % static_cast<std::size_t>(window.every) != 0) {
      continue;
    }
    const auto count = std::min(static_cast<std::size_t>(window.frames), at / channels + 1);
    double sum = 0.0;
    double largest = -std::numeric_limits<double>::infinity();
    std::size_t added = 0;
    for (std::size_t back = 0; back < count; ++back) {
      const double value = x[at - back * channels];
      if (window.on_nan != "spread" && !std::isfinite(value)) {
        if (window.on_nan == "reset") {
          break;
        }
        continue;
      }
      ++added;
      sum += value;
      largest = std::isnan(value) || std::isnan(largest) ? static_cast<double>(nan) : std::max(largest, value);
    }
    y.push_back(added == 0 ? static_cast<double>(nan) : window.peak ? largest : sum / static_cast<double>(added));
  }
  return y;
}

class accumulate_operation : public session_test {
 protected:
  session_case make(const accumulation& window, tensor_spec input) {
    session_case setup{.op = "accumulate", .settings = {}, .input = std::move(input)};
    setup.settings.set("frames", window.frames);
    setup.settings.set("kind", std::string{window.peak ? "peak" : "mean"});
    setup.settings.set("along", std::string{window.rows ? "rows" : "frames"});
    setup.settings.set("every", window.every);
    if (window.on_nan != "spread") {
      setup.settings.set("on_nan", window.on_nan);
    }
    setup.seed = static_cast<std::uint64_t>(random_.integer(1, 1'000'000'000));
    setup.max_frames = random_.integer(1, 40);
    setup.least_steps = random_.integer(0, 1);
    return setup;
  }

  void expect_results(const session_case& setup, const accumulation& window, const session_signals& signals) {
    const auto results = run<float>(setup, signals);
    const std::size_t channels = setup.input_step_bytes() / sizeof(float);
    ASSERT_EQ(results.size(), signals.size());
    for (std::size_t session = 0; session < signals.size(); ++session) {
      ASSERT_NO_FATAL_FAILURE(expect_close(
          results[session], window_by_window(signals[session], channels, window), window.peak ? 0.0 : 1e-6,
          setup.text() + ", frames " + std::to_string(window.frames) + ", session " + std::to_string(session)));
    }
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(accumulate_operation);

TEST_P(accumulate_operation, MatchesEachWindowOnItsOwnAlongFrames) {
  SCOPED_TRACE(random_.trace());
  for (int round = 0; round < 40; ++round) {
    const accumulation window{.frames = round % 4 == 0 ? 1 : random_.integer(2, 90), .peak = random_.coin()};
    tensor_spec input{.type = element_type::f32, .shape = {random_.integer(1, 70)}};
    if (random_.coin()) {
      input.shape.push_back(3);
    }
    const session_case setup = make(window, input);
    ASSERT_NO_FATAL_FAILURE(
        expect_results(setup, window, random_signals(random_, setup, {random_.integer(1, 250), 1, 60})));
  }
}

TEST_P(accumulate_operation, MatchesEachWindowOnItsOwnAlongRows) {
  SCOPED_TRACE(random_.trace());
  for (int round = 0; round < 40; ++round) {
    const accumulation window{.frames = round % 4 == 0 ? random_.integer(1, 3) : random_.integer(2, 500),
                              .peak = random_.coin(),
                              .rows = true};
    tensor_spec input{.type = element_type::f32, .shape = {random_.integer(1, 400)}, .variable = random_.coin()};
    if (random_.coin()) {
      input.shape.push_back(random_.integer(1, 12));
    }
    const session_case setup = make(window, input);
    ASSERT_NO_FATAL_FAILURE(
        expect_results(setup, window, random_signals(random_, setup, {random_.integer(1, 2500), 9, 600})));
  }
}

TEST_P(accumulate_operation, MatchesEachWindowOnItsOwnWhereItIsTheLongest) {
  SCOPED_TRACE(random_.trace());
  for (const bool rows : {false, true}) {
    for (const bool peak : {false, true}) {
      const accumulation window{.frames = 4096, .peak = peak, .rows = rows};
      const session_case setup =
          make(window, {.type = element_type::f32, .shape = {rows ? 3000 : 1}, .variable = rows});
      ASSERT_NO_FATAL_FAILURE(expect_results(setup, window, random_signals(random_, setup, {7000, 3000})));
    }
  }
}

TEST_P(accumulate_operation, DoesNotDriftOverALongSession) {
  SCOPED_TRACE(random_.trace());
  const accumulation window{.frames = 32, .peak = false, .rows = true};
  const session_case setup = make(window, {.type = element_type::f32, .shape = {500}, .variable = true});
  session_signals signals{std::vector<float>(200'000, 0.1F)};
  std::fill_n(signals[0].begin() + 1000, 50, 1e20F);
  const auto means = run<float>(setup, signals);
  EXPECT_EQ(std::count(means[0].begin() + 1000, means[0].begin() + 1081, 0.1F), 0);
  EXPECT_EQ(std::vector<float>(means[0].begin() + 1081, means[0].end()), std::vector<float>(198'919, 0.1F));
}

TEST_P(accumulate_operation, LosesOnlyTheWindowsThatHoldANan) {
  SCOPED_TRACE(random_.trace());
  for (const bool rows : {false, true}) {
    for (const bool peak : {false, true}) {
      const accumulation window{.frames = 16, .peak = peak, .rows = rows};
      const session_case setup =
          make(window, {.type = element_type::f32, .shape = {rows ? 60 : 1, 3}, .variable = rows});
      auto signals = random_signals(random_, setup, {200, 200, 200});
      signals[1][3 * 100 + 1] = nan;
      signals[1][3 * 5] = std::numeric_limits<float>::infinity();
      ASSERT_NO_FATAL_FAILURE(expect_results(setup, window, signals));
    }
  }
}

TEST_P(accumulate_operation, GivesOneResultForSoManySteps) {
  SCOPED_TRACE(random_.trace());
  const std::array<std::array<std::int64_t, 2>, 7> windows{
      {{1, 2}, {4, 4}, {7, 3}, {5, 11}, {64, 64}, {300, 2}, {97, 31}}};
  for (const auto& [length, every] : windows) {
    for (const std::int64_t channels : {1, 3, 64, 101}) {
      for (const bool peak : {false, true}) {
        const accumulation window{.frames = length, .peak = peak, .rows = true, .every = every};
        session_case setup = make(window, {.type = element_type::f32, .shape = {50, channels}, .variable = true});
        setup.age = random_.integer(0, 1) * (((std::int64_t{3} << 31U) + 5) / every * every);
        setup.aged_from = length;
        expect_results(setup, window, random_signals(random_, setup, {1, 2 * every, random_.integer(200, 900)}, 3.0));
        const tensor_spec fixed{.type = element_type::f32, .shape = {2 * every, channels}};
        expect_results(make(window, fixed), window, random_signals(random_, make(window, fixed), {every, 400}));
      }
    }
  }
}

TEST_P(accumulate_operation, LosesOnlyTheWantedWindowsThatHoldANan) {
  for (const std::int64_t length : {4, 100}) {
    for (const bool peak : {false, true}) {
      const accumulation window{.frames = length, .peak = peak, .rows = true, .every = 4};
      const session_case setup = make(window, {.type = element_type::f32, .shape = {33}, .variable = true});
      session_signals signals = random_signals(random_, setup, {500});
      signals[0][201] = nan;
      expect_results(setup, window, signals);
    }
  }
}

TEST_P(accumulate_operation, LeavesOutInvalidStepsWhereAsked) {
  SCOPED_TRACE(random_.trace());
  for (const std::string on_nan : {"reset", "hold"}) {
    for (const bool peak : {false, true}) {
      for (const std::int64_t every : {0, 1, 3, 17}) {  // 0: along frames
        for (const std::int64_t channels : {1, 5, 64}) {
          const accumulation window{.frames = random_.integer(1, every == 1 ? 40 : 150),
                                    .peak = peak,
                                    .rows = every > 0,
                                    .every = std::max<std::int64_t>(every, 1),
                                    .on_nan = on_nan};
          tensor_spec input{.type = element_type::f32, .shape = {every > 0 ? 60 : 2, channels}, .variable = every > 0};
          const session_case setup = make(window, input);
          session_signals signals = random_signals(random_, setup, {1, 90, 500, 300}, 3.0);
          random_.spoil(signals[1]);
          random_.spoil(signals[2]);
          ASSERT_NO_FATAL_FAILURE(expect_results(setup, window, signals)) << on_nan << ", every " << every;
        }
      }
    }
  }
}

TEST(Accumulate, SaysWhatAStepIs) {
  parameters settings;
  settings.set("frames", std::int64_t{4});
  const tensor_spec fixed{.type = element_type::f32, .shape = {8, 2}};
  const tensor_spec variable{.type = element_type::f32, .shape = {8, 2}, .variable = true};
  const operator_definition& definition = *find_operator("accumulate");
  EXPECT_EQ(definition.infer(settings, std::span{&fixed, 1}), fixed);
  EXPECT_TRUE(definition.session(settings, std::span{&fixed, 1})->whole_frames);
  settings.set("along", std::string{"rows"});
  EXPECT_EQ(definition.infer(settings, std::span{&variable, 1}), variable);
  EXPECT_FALSE(definition.session(settings, std::span{&variable, 1})->whole_frames);
}

TEST(Accumulate, RefusesWhatItCannotDo) {
  const tensor_spec input{.type = element_type::f32, .shape = {8}};
  const auto with = [](const char* key, parameters::value value) {
    parameters settings;
    settings.set("frames", std::int64_t{4});
    settings.set(key, std::move(value));
    return settings;
  };
  expect_refused("accumulate", {}, {input}, "frames", "is missing");
  expect_refused("accumulate", with("frames", std::int64_t{0}), {input}, "frames", "from 1 to 4096");
  expect_refused("accumulate", with("frames", std::int64_t{4097}), {input}, "frames", "from 1 to 4096");
  expect_refused("accumulate", with("kind", std::string{"max"}), {input}, "kind", "\"mean\" or \"peak\"");
  expect_refused("accumulate", with("on_nan", std::string{"skip"}), {input}, "on_nan", "\"spread\", \"reset\"");
  expect_refused("accumulate", with("along", std::string{"time"}), {input}, "along", "\"frames\" or \"rows\"");
  expect_refused("accumulate", with("along", std::string{"frames"}),
                 {{.type = element_type::f32, .shape = {8}, .variable = true}}, "along", "f32[max 8]");
  expect_refused("accumulate", with("kind", std::string{"mean"}), {{.type = element_type::i16, .shape = {8}}}, "from",
                 "takes f32");
  expect_refused("accumulate", with("every", std::int64_t{0}), {input}, "every", "from 1");
  expect_refused("accumulate", with("every", std::int64_t{4}), {input}, "every", "along = \"rows\"");
  parameters rows = with("every", std::int64_t{3});
  rows.set("along", std::string{"rows"});
  expect_refused("accumulate", rows, {input}, "every", "divide the 8 steps");
}

}  // namespace
}  // namespace penstock
