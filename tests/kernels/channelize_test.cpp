#include "kernels/channelize.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

using sample = std::complex<double>;

struct bank {
  std::int64_t channels = 2;
  std::int64_t hop = 2;
  std::int64_t taps = 0;  ///< 0: those of the operator
  std::int64_t inputs = 1;
  bool complex_input = true;

  [[nodiscard]] std::string text() const {
    return std::to_string(channels) + " channels, hop " + std::to_string(hop) + ", " + std::to_string(taps) +
           " taps, " + std::to_string(inputs) + (complex_input ? " complex" : " real") + " inputs";
  }
};

struct exact_row {
  std::vector<sample> channels;
  double peak = 0;  ///< of the steps that it sees, infinite if one of them is not finite
};

/// In float64 over the whole signal, channel by channel: each step is mixed, filtered, and every hop-th result kept.
std::vector<exact_row> divided(const std::vector<float>& x, const std::vector<double>& h, const bank& design) {
  const auto inputs = static_cast<std::size_t>(design.inputs);
  const std::size_t parts = design.complex_input ? 2 : 1;
  const auto steps = static_cast<std::int64_t>(x.size() / inputs / parts);
  const auto taps = static_cast<std::int64_t>(h.size());
  std::vector<exact_row> rows;
  for (std::int64_t end = design.hop; end <= steps; end += design.hop) {
    for (std::size_t input = 0; input < inputs; ++input) {
      exact_row row;
      row.channels.resize(static_cast<std::size_t>(design.channels));
      for (std::int64_t k = 0; k < taps && end - 1 - k >= 0; ++k) {
        const float* const at = x.data() + (static_cast<std::size_t>(end - 1 - k) * inputs + input) * parts;
        const sample value{at[0], parts == 2 ? at[1] : 0.0F};
        const bool finite = std::isfinite(value.real()) && std::isfinite(value.imag());
        row.peak = std::max(row.peak, finite ? std::abs(value) : std::numeric_limits<double>::infinity());
        for (std::int64_t channel = 0; channel < design.channels; ++channel) {
          const std::int64_t turn = channel * ((end + design.hop - k) % design.channels) % design.channels;
          const double angle =
              -2.0 * std::numbers::pi * static_cast<double>(turn) / static_cast<double>(design.channels);
          row.channels[static_cast<std::size_t>(channel)] +=
              h[static_cast<std::size_t>(k)] * value * sample{std::cos(angle), std::sin(angle)};
        }
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

class channelize_operation : public session_test {
 protected:
  struct trial {
    session_case setup;
    std::vector<double> taps;
  };

  trial make(const bank& design, std::int64_t longest, bool variable = true) {
    trial made{.setup = {.op = "channelize",
                         .settings = settings_of({{"channels", design.channels}, {"hop", design.hop}}),
                         .input = {.type = design.complex_input ? element_type::cf32 : element_type::f32,
                                   .shape = {longest, design.inputs},
                                   .variable = variable}},
               .taps = {}};
    if (design.taps == 0) {
      made.taps = kaiser_low_pass(20 * design.channels + 1, 1.0 / static_cast<double>(design.channels), 5.0);
    } else {
      for (std::int64_t k = 0; k < design.taps; ++k) {
        made.taps.push_back(static_cast<double>(static_cast<float>(random_.real(-1.0, 1.0))));
      }
      made.setup.settings.set("taps", made.taps);
    }
    made.setup.seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30));
    made.setup.least_steps = random_.integer(0, 1);
    return made;
  }

  std::vector<float> signal(const bank& design, std::int64_t steps) {
    return random_.normal(static_cast<std::size_t>(steps * design.inputs * (design.complex_input ? 2 : 1)));
  }

  void expect_divided(const trial& attempt, const bank& design, const session_signals& signals) {
    double sum = 0.0;
    for (const double tap : attempt.taps) {
      sum += std::abs(tap);
    }
    const auto got = run<float>(attempt.setup, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      const std::vector<exact_row> expected = divided(signals[session], attempt.taps, design);
      const auto channels = static_cast<std::size_t>(design.channels);
      ASSERT_EQ(got[session].size(), expected.size() * 2 * channels) << design.text();
      const float* y = got[session].data();
      for (std::size_t row = 0; row < expected.size(); ++row) {
        for (std::size_t channel = 0; channel < channels; ++channel, y += 2) {
          if (std::isinf(expected[row].peak)) {
            ASSERT_FALSE(std::isfinite(y[0]) && std::isfinite(y[1])) << design.text() << ", row " << row;
          } else {
            ASSERT_LE(std::abs(sample{y[0], y[1]} - expected[row].channels[channel]), 1e-6 * sum * expected[row].peak)
                << design.text() << ", " << attempt.setup.text() << ", session " << session << ", row " << row
                << ", channel " << channel;
          }
        }
      }
    }
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(channelize_operation);

TEST_P(channelize_operation, GivesWhatTheWholeSignalGivesHoweverItIsCut) {
  SCOPED_TRACE(random_.trace());
  for (const bank& design :
       {bank{2, 2}, bank{5, 5}, bank{8, 8}, bank{8, 4}, bank{8, 3}, bank{16, 12, 0, 2}, bank{7, 1}, bank{12, 9, 30},
        bank{8, 8, 5}, bank{8, 5, 1}, bank{6, 4, 384}, bank{8, 8, 0, 3, false}, bank{13, 11, 50, 1, false}}) {
    const trial attempt = make(design, random_.coin() ? 30 : 300);
    ASSERT_NO_FATAL_FAILURE(expect_divided(
        attempt, design,
        {signal(design, 1), signal(design, random_.integer(2, 60)), signal(design, random_.integer(300, 900))}));
  }
}

TEST_P(channelize_operation, TakesManyChannels) {
  SCOPED_TRACE(random_.trace());
  for (const bank& design : {bank{64, 64}, bank{100, 75}, bank{61, 61, 0, 1, false}}) {
    const trial attempt = make(design, 1000);
    ASSERT_NO_FATAL_FAILURE(expect_divided(attempt, design, {signal(design, 2500), signal(design, 100)}));
  }
}

TEST_P(channelize_operation, TakesFixedFrames) {
  SCOPED_TRACE(random_.trace());
  const bank design{8, 6, 0, 2};
  const trial attempt = make(design, 30, false);
  EXPECT_EQ(attempt.setup.output(), (tensor_spec{element_type::cf32, {5, 2, 8}}));
  expect_divided(attempt, design, {signal(design, 30 * 20), signal(design, 30)});
}

TEST_P(channelize_operation, GoesOnBehindBillionsOfSteps) {
  SCOPED_TRACE(random_.trace());
  const bank design{10, 6};
  trial attempt = make(design, 200);
  // A whole number of the 30 steps after which the phases repeat.
  attempt.setup.age = ((std::int64_t{1} << 53U) + 29) / 30 * 30;
  expect_divided(attempt, design, {signal(design, 1000)});
}

TEST_P(channelize_operation, GivesEachOutputByItsOwnSpanWhateverElseTheSignalHolds) {
  SCOPED_TRACE(random_.trace());
  const bank design{8, 5, 0, 1};
  const trial attempt = make(design, 700);
  std::vector<float> poisoned = signal(design, 2500);
  poisoned[2500] = std::numeric_limits<float>::quiet_NaN();
  poisoned[1000] = std::numeric_limits<float>::infinity();
  std::vector<float> sentinels = signal(design, 2500);
  sentinels[2500] = 1e20F;
  sentinels[1000] = 3e38F;
  expect_divided(attempt, design, {poisoned, sentinels});
}

TEST_P(channelize_operation, BringsEachToneToItsChannel) {
  constexpr std::int64_t channels = 8;
  const bank design{channels, channels};
  for (std::int64_t tone = 0; tone < channels; ++tone) {
    std::vector<float> x;
    for (std::int64_t n = 0; n < 1000; ++n) {
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(tone * n % channels) / channels;
      x.push_back(static_cast<float>(std::cos(angle)));
      x.push_back(static_cast<float>(std::sin(angle)));
    }
    const auto y = run<float>(make(design, 1000).setup, session_signals{x}).front();
    const float* const last = y.data() + y.size() - 2 * channels;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      EXPECT_NEAR(std::hypot(last[2 * channel], last[2 * channel + 1]), channel == tone ? 1.0 : 0.0, 2e-3)
          << tone << " in " << channel;
    }
  }
}

TEST(Channelize, DesignsTheFilterOfFirwin) {
  // scipy 1.10
  const std::vector<double> expected{-0.00595746776909394, 0.05855338423181518, 0.17542929864618398,
                                     0.2719747848910947,   0.2719747848910947,  0.17542929864618398,
                                     0.05855338423181518,  -0.00595746776909394};
  const std::vector<double> taps = kaiser_low_pass(8, 0.3, 2.0);
  ASSERT_EQ(taps.size(), expected.size());
  for (std::size_t k = 0; k < taps.size(); ++k) {
    EXPECT_NEAR(taps[k], expected[k], 1e-15) << k;
  }
  EXPECT_NEAR(kaiser_low_pass(61, 1.0 / 3, 5.0)[1], -0.0005075758102200313, 1e-17);
  EXPECT_EQ(kaiser_low_pass(1, 0.5, 5.0), std::vector<double>{1.0});
}

TEST(Channelize, SaysHowManyRowsAFrameGivesAndHowLateTheyAre) {
  session_case setup{.op = "channelize",
                     .settings = settings_of({{"channels", std::int64_t{8}}, {"hop", std::int64_t{6}}}),
                     .input = {element_type::f32, {100, 3}, true}};
  EXPECT_EQ(setup.output(), (tensor_spec{element_type::cf32, {17, 3, 8}, true}));
  EXPECT_EQ(setup.traits().rate, (step_rate{6, 0}));
  EXPECT_EQ(setup.traits().delay, 80.0);
}

TEST(Channelize, RefusesWhatItCannotDo) {
  const tensor_spec input{.type = element_type::cf32, .shape = {100}};
  const auto of = [](std::int64_t channels, std::int64_t hop) {
    return settings_of({{"channels", channels}, {"hop", hop}});
  };
  expect_refused("channelize", {}, {input}, "channels", "is missing");
  expect_refused("channelize", of(1, 1), {input}, "channels", "from 2 to 65536, not 1");
  expect_refused("channelize", of(4, 5), {input}, "hop", "from 1 to 4, not 5");
  expect_refused("channelize", of(8, 8), {input}, "hop", "use frames of a multiple of it, or \"max 100\"");
  expect_refused("channelize", of(4, 4), {{.type = element_type::ci16, .shape = {100}}}, "from", "not ci16[100]");
  parameters settings = of(2, 2);
  settings.set("taps", std::vector<double>(129, 1.0));
  expect_refused("channelize", settings, {input}, "taps", "at most 64 a channel, 128, not 129");
  expect_refused("channelize", settings_of({{"channels", std::int64_t{20000}}}), {input}, "channels",
                 "at most 16384 without taps");
}

}  // namespace
}  // namespace penstock
