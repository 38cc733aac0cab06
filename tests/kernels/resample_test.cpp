#include "kernels/resample.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

using sample = std::complex<double>;

struct conversion {
  std::int64_t up = 1;
  std::int64_t down = 1;
  std::int64_t taps = 0;  ///< 0: the filter of resample_poly
  std::int64_t channels = 1;
  bool complex_input = false;
  bool complex_taps = false;

  [[nodiscard]] std::string text() const {
    return std::to_string(up) + " / " + std::to_string(down) + ", " + std::to_string(taps) + " taps, " +
           std::to_string(channels) + (complex_input ? " complex" : " real") + " channels";
  }
};

/// firwin(20·max(L, M) + 1, 1 / max(L, M), window = ("kaiser", 5.0)) · L by the standard library's Bessel function,
/// behind the zeros that bring its delay to a multiple of M.
std::vector<double> resample_poly_taps(std::int64_t up, std::int64_t down) {
  const std::int64_t half = 10 * std::max(up, down);
  const double cutoff = 1.0 / static_cast<double>(std::max(up, down));
  std::vector<double> taps;
  for (std::int64_t k = -half; k <= half; ++k) {
    const double x = std::acos(-1.0) * cutoff * static_cast<double>(k);
    const double place = static_cast<double>(k) / static_cast<double>(half);
    taps.push_back((k == 0 ? 1.0 : std::sin(x) / x) *
                   std::cyl_bessel_i(0.0, 5.0 * std::sqrt(std::max(0.0, 1.0 - place * place))));
  }
  const double sum = std::accumulate(taps.begin(), taps.end(), 0.0);
  for (double& tap : taps) {
    tap *= static_cast<double>(up) / sum;
  }
  taps.insert(taps.begin(), static_cast<std::size_t>((down - half % down) % down), 0.0);
  return taps;
}

/// One output of upfirdn: its value, and what its tolerance is taken from.
struct exact_output {
  sample value;
  double peak = 0;  ///< of the steps that it sees, infinite if one of them is not finite
};

/// scipy.signal.upfirdn(h, x, L, M) in float64 over the whole signal, as far as its first ⌈N·L / M⌉ outputs.
std::vector<exact_output> upfirdn(const std::vector<float>& x, const std::vector<sample>& h, const conversion& design) {
  const auto channels = static_cast<std::size_t>(design.channels);
  const std::size_t parts = design.complex_input ? 2 : 1;
  const auto steps = static_cast<std::int64_t>(x.size() / channels / parts);
  const auto taps = static_cast<std::int64_t>(h.size());
  std::vector<exact_output> y;
  for (std::int64_t fine = 0; fine < steps * design.up; fine += design.down) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      exact_output made;
      for (std::int64_t n = std::max<std::int64_t>(0, (fine - taps + design.up) / design.up); n * design.up <= fine;
           ++n) {
        const std::int64_t k = fine - n * design.up;
        if (k >= taps) {
          continue;
        }
        const float* const at = x.data() + (static_cast<std::size_t>(n) * channels + channel) * parts;
        const sample value{at[0], parts == 2 ? at[1] : 0.0F};
        const sample& tap = h[static_cast<std::size_t>(k)];
        made.value += sample{tap.real() * value.real() - tap.imag() * value.imag(),
                             tap.real() * value.imag() + tap.imag() * value.real()};
        const bool finite = std::isfinite(value.real()) && std::isfinite(value.imag());
        made.peak = std::max(made.peak, finite ? std::abs(value) : std::numeric_limits<double>::infinity());
      }
      y.push_back(made);
    }
  }
  return y;
}

class resample_operation : public session_test {
 protected:
  struct trial {
    session_case setup;
    std::vector<sample> taps;
  };

  trial make(const conversion& design, std::int64_t longest, bool variable = true) {
    trial made{.setup = {.op = "resample",
                         .settings = settings_of({{"up", design.up}, {"down", design.down}}),
                         .input = {.type = design.complex_input ? element_type::cf32 : element_type::f32,
                                   .shape = {longest, design.channels},
                                   .variable = variable}},
               .taps = {}};
    if (design.taps == 0) {
      const std::int64_t common = std::gcd(design.up, design.down);
      for (const double tap : resample_poly_taps(design.up / common, design.down / common)) {
        made.taps.emplace_back(tap);
      }
    } else {
      std::vector<double> re;
      std::vector<double> im;
      for (std::int64_t k = 0; k < design.taps; ++k) {
        re.push_back(static_cast<double>(static_cast<float>(random_.real(-1.0, 1.0))));
        im.push_back(design.complex_taps ? static_cast<double>(static_cast<float>(random_.real(-1.0, 1.0))) : 0.0);
        made.taps.emplace_back(re.back(), im.back());
      }
      made.setup.settings.set("taps", re);
      if (design.complex_taps) {
        made.setup.settings.set("taps_imag", im);
      }
    }
    made.setup.seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30));
    made.setup.least_steps = random_.integer(0, 1);
    return made;
  }

  std::vector<float> signal(const conversion& design, std::int64_t steps) {
    return random_.normal(static_cast<std::size_t>(steps * design.channels * (design.complex_input ? 2 : 1)));
  }

  /// Each output is within 1e-6 of the sum of the taps times the peak of the steps that it sees, and not finite only
  /// where one of those is not.
  void expect_resampled(const trial& attempt, const conversion& design, const session_signals& signals) {
    const bool complex_output = design.complex_input || design.complex_taps;
    double sum = 0.0;
    for (const sample& tap : attempt.taps) {
      sum += std::abs(tap);
    }
    // An output sees the taps of one phase.
    sum /= static_cast<double>(attempt.setup.settings.has("taps") ? 1 : design.up / std::gcd(design.up, design.down));
    const auto got = run<float>(attempt.setup, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      const std::vector<exact_output> expected = upfirdn(signals[session], attempt.taps, reduced(design));
      const std::vector<float>& y = got[session];
      ASSERT_EQ(y.size(), expected.size() * (complex_output ? 2 : 1)) << design.text() << attempt.setup.text();
      for (std::size_t at = 0; at < expected.size(); ++at) {
        const sample value{y[complex_output ? 2 * at : at], complex_output ? y[2 * at + 1] : 0.0F};
        if (std::isinf(expected[at].peak)) {
          ASSERT_FALSE(std::isfinite(value.real()) && std::isfinite(value.imag())) << design.text() << ", " << at;
        } else {
          ASSERT_LE(std::abs(value - expected[at].value),
                    1e-6 * sum * expected[at].peak + static_cast<double>(std::numeric_limits<float>::min()))
              << design.text() << ", " << attempt.setup.text() << ", session " << session << ", output " << at << " of "
              << expected.size();
        }
      }
    }
  }

  /// Without taps the common factor goes.
  static conversion reduced(conversion design) {
    if (design.taps == 0) {
      const std::int64_t common = std::gcd(design.up, design.down);
      design.up /= common;
      design.down /= common;
    }
    return design;
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(resample_operation);

TEST_P(resample_operation, GivesWhatTheWholeSignalGivesHoweverItIsCut) {
  SCOPED_TRACE(random_.trace());
  for (const auto& [up, down] : {std::pair{1, 1}, {3, 1}, {1, 4}, {3, 2}, {2, 3}, {7, 13}, {147, 160}, {6, 4}}) {
    for (const std::int64_t channels : {1, 3}) {
      for (const bool complex : {false, true}) {
        const conversion design{up, down, 0, channels, complex};
        const trial attempt = make(design, random_.coin() ? 20 : 300);
        ASSERT_NO_FATAL_FAILURE(expect_resampled(
            attempt, design,
            {signal(design, 1), signal(design, random_.integer(2, 60)), signal(design, random_.integer(300, 900))}));
      }
    }
  }
}

TEST_P(resample_operation, TakesTapsOfEveryLength) {
  SCOPED_TRACE(random_.trace());
  for (const conversion& design :
       {conversion{5, 3, 1}, conversion{5, 3, 4}, conversion{4, 6, 61, 2}, conversion{3, 2, 1201, 1, true},
        conversion{1, 50, 1999, 1, true}, conversion{3, 7, 50, 1, false, true}, conversion{3, 7, 50, 2, true, true},
        conversion{10, 1, 101, 64}, conversion{9, 10, 64, 1}, conversion{2, 5, 301, 33, true},
        conversion{64, 63, 500}}) {
    const trial attempt = make(design, 200);
    ASSERT_NO_FATAL_FAILURE(expect_resampled(attempt, design, {signal(design, 10), signal(design, 1501)}));
  }
}

TEST_P(resample_operation, TakesLongFrames) {
  SCOPED_TRACE(random_.trace());
  for (const conversion& design :
       {conversion{147, 160, 0, 1}, conversion{1, 10, 0, 1, true}, conversion{2, 1, 0, 2, true}}) {
    const trial attempt = make(design, 30000);
    ASSERT_NO_FATAL_FAILURE(expect_resampled(attempt, design, {signal(design, 50000), signal(design, 20011)}));
  }
}

TEST_P(resample_operation, TakesFixedFrames) {
  SCOPED_TRACE(random_.trace());
  for (const conversion& design : {conversion{2, 3, 0, 1}, conversion{4, 6, 30, 3, true}}) {
    const trial attempt = make(design, 33, false);
    ASSERT_NO_FATAL_FAILURE(expect_resampled(attempt, design, {signal(design, 33 * 20), signal(design, 33)}));
  }
}

TEST_P(resample_operation, GoesOnBehindBillionsOfSteps) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t earlier : {(std::int64_t{1} << 32U) + 5, (std::int64_t{1} << 53U) + 7}) {
    // A whole number of periods before the first step: as if the session began there.
    const conversion design{147, 160, 0, 1, true};
    trial attempt = make(design, 500);
    attempt.setup.age = earlier / 160 * 160;
    ASSERT_NO_FATAL_FAILURE(expect_resampled(attempt, design, {signal(design, 3000)}));
  }
}

TEST_P(resample_operation, GivesEachOutputByItsOwnSpanWhateverElseTheSignalHolds) {
  SCOPED_TRACE(random_.trace());
  for (const conversion& design :
       {conversion{3, 2, 0, 1}, conversion{2, 7, 0, 2, true}, conversion{5, 4, 601, 1, true, true}}) {
    const trial attempt = make(design, 700);
    const auto count = static_cast<std::size_t>(2500 * design.channels * (design.complex_input ? 2 : 1));
    std::vector<float> poisoned = signal(design, 2500);
    poisoned[count / 2] = std::numeric_limits<float>::quiet_NaN();
    poisoned[count / 4] = std::numeric_limits<float>::infinity();
    std::vector<float> sentinels = signal(design, 2500);
    sentinels[count / 2] = 1e20F;
    sentinels[count / 5] = 3e38F;
    ASSERT_NO_FATAL_FAILURE(expect_resampled(attempt, design, {poisoned, sentinels}));
  }
}

TEST(Resample, SaysHowManyStepsAFrameGivesAndHowLateTheyAre) {
  session_case setup{.op = "resample",
                     .settings = settings_of({{"up", std::int64_t{6}}, {"down", std::int64_t{4}}}),
                     .input = {element_type::cf32, {101, 3}, true}};
  EXPECT_EQ(setup.output(), (tensor_spec{element_type::cf32, {152, 3}, true}));
  EXPECT_EQ(setup.traits().rate, (step_rate{2, 1, 3}));
  EXPECT_EQ(setup.traits().delay, 10.0) << "30 of the taps at 3 times the rate: 15 outputs";
  setup.settings = settings_of({{"up", std::int64_t{1}}, {"down", std::int64_t{7}}});
  EXPECT_EQ(setup.traits().rate, (step_rate{7, 6}));
  EXPECT_EQ(setup.traits().delay, 70.0);
  setup.settings = settings_of({{"up", std::int64_t{2}}, {"taps", std::vector<double>{1.0, 2.0, 2.0, 1.0}}});
  EXPECT_EQ(setup.traits().delay, 0.75);
  setup.settings = settings_of({{"up", std::int64_t{2}}, {"taps", std::vector<double>{1.0, 2.0, 3.0, 1.0}}});
  EXPECT_EQ(setup.traits().delay, 0.0);
}

TEST(Resample, RefusesWhatItCannotDo) {
  const tensor_spec input{.type = element_type::f32, .shape = {100}};
  const auto of = [](std::int64_t up, std::int64_t down) { return settings_of({{"up", up}, {"down", down}}); };
  expect_refused("resample", of(0, 1), {input}, "up", "from 1 to 65536, not 0");
  expect_refused("resample", of(1, 65537), {input}, "down", "from 1 to 65536, not 65537");
  expect_refused("resample", of(1, 16411), {{.type = element_type::f32, .shape = {100}, .variable = true}}, "down",
                 "at most 16384 without taps");
  expect_refused("resample", of(2, 3), {input}, "down", "use frames of a multiple of 3, or \"max 100\"");
  expect_refused("resample", of(1, 1), {{.type = element_type::i16, .shape = {100}}}, "from", "not i16[100]");
  expect_refused("resample", settings_of({{"taps_imag", std::vector<double>{1.0}}}), {input}, "taps_imag",
                 "needs taps");
  expect_refused("resample",
                 settings_of({{"taps", std::vector<double>{1.0}}, {"taps_imag", std::vector<double>{1.0, 2.0}}}),
                 {input}, "taps_imag", "as many numbers as taps, 1, not 2");
  EXPECT_NO_THROW(find_operator("resample")->infer(of(16410, 32820), std::span{&input, 1})) << "a half";
}

TEST(StepRates, CountTheStepsOfEachStageThroughThoseBefore) {
  const step_rates chain =
      step_rates{}.then({4, 3}).then({160, 159, 147}).then({5, 0}).then({1, 0, 3}).then({2, 1}).then({6, 5, 1});
  const auto ceil = [](std::int64_t n, std::int64_t up, std::int64_t down) { return (n * up + down - 1) / down; };
  for (const std::int64_t taken : {0, 1, 4, 5, 800, 1001, 99'999'999}) {
    const std::int64_t rows = ceil(ceil(taken, 1, 4), 147, 160) / 5;
    EXPECT_EQ(chain.total(taken), ceil(ceil(3 * rows, 1, 2), 1, 6)) << taken;
    EXPECT_GE(chain.most(taken), chain.total(taken));
  }
  const std::int64_t period = chain.period();
  const std::int64_t given = chain.total(period);
  EXPECT_EQ(period * 147, given * 4 * 160 * 5 * 4) << "three of two of a sixth";
  for (const std::int64_t begun : {0, 1, 77, 12345}) {
    EXPECT_EQ(chain.total(begun + period) - chain.total(begun), given);
    EXPECT_EQ(chain.total(begun + 3 * period) - chain.total(begun), 3 * given);
  }
}

TEST(StepRates, CountRowsThatBeginLateOnEitherSideOfARationalRate) {
  const step_rate rows{.divisor = 2, .offset = 2 - 7};
  const auto rows_of = [](std::int64_t taken) { return std::max<std::int64_t>(taken - 5, 0) / 2; };
  for (const auto& [up, down] : {std::pair{3, 2}, {6, 1}, {1, 4}, {2, 3}}) {
    const step_rate faster{.divisor = down, .offset = down - 1, .multiplier = up};
    const auto faster_of = [&](std::int64_t taken) { return (taken * up + down - 1) / down; };
    const step_rates before = step_rates{faster}.then(rows);
    const step_rates behind = step_rates{rows}.then(faster).then({3, 2});
    for (std::int64_t taken = 0; taken < 100; ++taken) {
      EXPECT_EQ(before.total(taken), rows_of(faster_of(taken))) << up << " / " << down << ", " << taken;
      EXPECT_EQ(behind.total(taken), (faster_of(rows_of(taken)) + 2) / 3) << up << " / " << down << ", " << taken;
    }
    EXPECT_TRUE(before.begins_late());
    EXPECT_TRUE(before.ragged());
  }
}

TEST(StepRates, AreOneWhereOneSaysTheSame) {
  EXPECT_EQ(step_rates{}.then({4, 3}).then({5, 0}), step_rates(step_rate{20, 3}));
  EXPECT_EQ(step_rates{}.then({1, 0, 3}).then({2, 1}), step_rates(step_rate{2, 1, 3}));
  EXPECT_EQ(step_rates{}.then({1, 0, 3}).then({3, 2}), step_rates(step_rate{}).then({}));
  EXPECT_FALSE(step_rates{}.then({1, 0, 3}).ragged());
  EXPECT_TRUE(step_rates{}.then({3, 2, 2}).ragged());
  EXPECT_EQ(step_rates{}.then({3, 2, 2}).period(), 3);
  EXPECT_EQ(step_rates{}.then({4, 3}).then({1, 0, 4}).period(), 4) << "four at once, then none";
}

TEST(StepTiming, PlacesOutputsBetweenTheStepsOfTheInput) {
  const auto timing_of = [](const step_rate& rate, double delay) {
    return session_traits{.rate = rate, .delay = delay};
  };
  const auto places = [](const step_timing& timing) {
    std::vector<std::int64_t> all;
    for (std::int64_t taken = 0; taken < 7; ++taken) {
      all.push_back(timing.next(taken));
    }
    return all;
  };
  // Outputs at 0, 2/3, 4/3, 2 …, of which the steps 0, 1, 2 … give two, one, two …
  const step_timing up = step_timing{}.then(timing_of({2, 1, 3}, 0));
  EXPECT_EQ(places(up), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(places(step_timing{}.then(timing_of({2, 1, 3}, 0.75))), (std::vector<std::int64_t>{-1, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(places(step_timing{}.then(timing_of({4, 3}, 0)).then(timing_of({2, 1, 3}, 0))),
            (std::vector<std::int64_t>{0, 5, 5, 5, 5, 8, 8}));
  // Rows of three of three times the steps stand where the steps do.
  const step_timing rows = step_timing{}.then(timing_of({1, 0, 3}, 0)).then(timing_of({3, 0}, 2));
  EXPECT_EQ(places(rows), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  constexpr std::int64_t far = (std::int64_t{1} << 53U) / 2 * 2;
  EXPECT_EQ(up.next(far + 1), far + 1);
}

}  // namespace
}  // namespace penstock
