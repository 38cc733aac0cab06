#include "kernels/demodulate.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

using sample = std::complex<double>;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// numpy.angle, and NaN for what is not finite.
double angle_of(const sample& z) {
  return std::isfinite(z.real()) && std::isfinite(z.imag()) ? std::arg(z) : not_a_number;
}

/// numpy.angle of z[n] · conj(z[n − 1]) and numpy.unwrap of numpy.angle, over the whole signal.
std::vector<double> demodulated(const std::vector<float>& x, std::size_t channels, const std::string& kind,
                                double gain) {
  std::vector<double> y;
  std::vector<sample> before(channels);
  std::vector<double> turns(channels);
  for (std::size_t at = 0; at < x.size() / 2; ++at) {
    const sample z{x[2 * at], x[2 * at + 1]};
    const std::size_t channel = at % channels;
    if (kind == "am") {
      y.push_back(gain * std::abs(z));
    } else if (kind == "fm") {
      // Each scaled by itself, so that nothing under- or overflows.
      const auto scaled = [](const sample& value) { return std::abs(value) > 0.0 ? value / std::abs(value) : value; };
      const bool finite = std::isfinite(angle_of(z)) && std::isfinite(angle_of(before[channel]));
      y.push_back(finite ? gain * std::arg(scaled(z) * std::conj(scaled(before[channel]))) : not_a_number);
    } else {
      const double phase = angle_of(z);
      const double change = phase - angle_of(before[channel]);
      turns[channel] += change > std::numbers::pi ? -1.0 : change < -std::numbers::pi ? 1.0 : 0.0;
      y.push_back(gain * (phase + 2.0 * std::numbers::pi * turns[channel]));
    }
    before[channel] = z;
  }
  return y;
}

class demodulate_operation : public session_test {
 protected:
  [[nodiscard]] session_case make(const std::string& kind, std::int64_t longest, std::int64_t channels, double gain) {
    session_case setup{
        .op = "demodulate",
        .settings = settings_of({{"kind", kind}, {"gain", gain}}),
        .input = {.type = element_type::cf32, .shape = {longest, channels}, .variable = true},
        .seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30)),
    };
    setup.least_steps = random_.integer(0, 1);
    return setup;
  }

  /// A carrier whose frequency wanders over the whole band, at a level.
  std::vector<float> carrier(std::int64_t steps, std::int64_t channels, double level) {
    std::vector<float> x;
    std::vector<double> phase(static_cast<std::size_t>(channels));
    for (std::int64_t step = 0; step < steps; ++step) {
      for (double& each : phase) {
        each += random_.real(-1.0, 3.1);
        const sample z = std::polar(level * random_.real(0.5, 1.0), each);
        x.push_back(static_cast<float>(z.real()));
        x.push_back(static_cast<float>(z.imag()));
      }
    }
    return x;
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(demodulate_operation);

TEST_P(demodulate_operation, GivesWhatTheWholeSignalGivesHoweverItIsCut) {
  SCOPED_TRACE(random_.trace());
  for (const char* const kind : {"fm", "pm"}) {
    for (const std::int64_t channels : {1, 3, 64}) {
      for (const double level : {1.0, 1e-21, 1e25}) {
        const double gain = random_.real(0.1, 1000.0);
        const session_case setup = make(kind, random_.coin() ? 40 : 1100, channels, gain);
        const session_signals signals{carrier(1, channels, level), carrier(random_.integer(2, 90), channels, level),
                                      carrier(random_.integer(1000, 5000), channels, level)};
        const auto got = run<float>(setup, signals);
        for (std::size_t session = 0; session < signals.size(); ++session) {
          ASSERT_NO_FATAL_FAILURE(expect_close(
              got[session],
              demodulated(signals[session], static_cast<std::size_t>(channels), kind, static_cast<float>(gain)), 1e-6,
              setup.text()))
              << kind << ", level " << level;
        }
      }
    }
  }
}

TEST_P(demodulate_operation, CountsTurnsForLong) {
  SCOPED_TRACE(random_.trace());
  const session_case setup = make("pm", 20000, 1, 1.0);
  const session_signals signals{carrier(200000, 1, 1.0)};
  const std::vector<double> expected = demodulated(signals[0], 1, "pm", 1.0);
  ASSERT_GT(std::abs(expected.back()), 1e5);
  expect_close(run<float>(setup, signals)[0], expected, 1e-7, setup.text());
}

TEST_P(demodulate_operation, GoesOnBehindBillionsOfSteps) {
  SCOPED_TRACE(random_.trace());
  for (const char* const kind : {"fm", "pm"}) {
    for (const std::int64_t earlier : {(std::int64_t{3} << 31U) + 5, (std::int64_t{1} << 53U) + 7}) {
      session_case setup = make(kind, 60, 3, 1.0);
      setup.age = earlier;
      setup.aged_from = 20;
      const session_signals signals{carrier(1, 3, 1.0), carrier(1000, 3, 1.0)};
      const auto got = run<float>(setup, signals);
      for (std::size_t session = 0; session < signals.size(); ++session) {
        ASSERT_NO_FATAL_FAILURE(
            expect_close(got[session], demodulated(signals[session], 3, kind, 1.0), 1e-6, setup.text()))
            << kind << ", from step " << earlier;
      }
    }
  }
}

TEST_P(demodulate_operation, CountsTurnsBeyondWhatThirtyTwoBitsHold) {
  SCOPED_TRACE(random_.trace());
  session_case setup = make("pm", 60, 2, 1.0);
  setup.age = 1;
  setup.state.resize(parse_demodulate(setup.settings, setup.input).state_bytes());
  const std::int64_t before[] = {(std::int64_t{3} << 31U) + 5, -(std::int64_t{1} << 40U)};
  std::copy_n(before, 2, demodulate_settings::turns(setup.state.data(), 2));
  const session_signals signals{carrier(500, 2, 1.0)};
  std::vector<double> expected = demodulated(signals[0], 2, "pm", 1.0);
  const auto got = run<float>(setup, signals)[0];
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t at = 0; at < got.size(); ++at) {
    expected[at] += 2.0 * std::numbers::pi * static_cast<double>(before[at % 2]);
    ASSERT_NEAR(got[at], expected[at], 4e-7 * std::abs(expected[at])) << "value " << at;
  }
}

TEST_P(demodulate_operation, KeepsWhatIsNotFiniteToTheStepsThatSeeIt) {
  SCOPED_TRACE(random_.trace());
  for (const char* const kind : {"fm", "pm"}) {
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const session_case setup = make(kind, 9, 2, 1.0);
      std::vector<float> x = carrier(100, 2, 1.0);
      x[2 * (2 * 50 + 1)] = poison;
      const auto got = run<float>(setup, session_signals{x})[0];
      ASSERT_NO_FATAL_FAILURE(expect_close(got, demodulated(x, 2, kind, 1.0), 1e-6, setup.text())) << kind;
      EXPECT_TRUE(std::isnan(got[2 * 50 + 1]));
      EXPECT_EQ(std::isnan(got[2 * 51 + 1]), std::string(kind) == "fm");
      EXPECT_TRUE(std::isfinite(got[2 * 50]));
      EXPECT_TRUE(std::isfinite(got[2 * 52 + 1]));
    }
  }
}

TEST_P(demodulate_operation, StartsFromSilence) {
  for (const char* const kind : {"fm", "pm"}) {
    const session_case setup = make(kind, 4, 1, 1.0);
    const auto got = run<float>(setup, session_signals{{0.0F, 0.0F, 0.0F, -2.0F, 3.0F, 0.0F}})[0];
    const std::vector<double> expected = std::string(kind) == "fm"
                                             ? std::vector<double>{0.0, 0.0, std::numbers::pi / 2}
                                             : std::vector<double>{0.0, -std::numbers::pi / 2, 0.0};
    expect_close(got, expected, 1e-6, kind);
  }
}

class demodulate_level : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(demodulate_level);

TEST_P(demodulate_level, IsTheMagnitudeTimesTheGain) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const double level : {1.0, 1e-30, 1e30}) {
    const tensor_spec input = random.spec(element_type::cf32, 1, 500);
    const operation_case setup{.op = "demodulate",
                               .settings = settings_of({{"kind", std::string("am")}, {"gain", 2.0}}),
                               .input = input,
                               .extent = random.extent(input)};
    const std::vector<float> x = random.normal(values_in(input, setup.extent), 0.0, level);
    ASSERT_NO_FATAL_FAILURE(expect_close(run<float>(setup, x), demodulated(x, 1, "am", 2.0), 1e-6, "am"));
  }
}

TEST(Demodulate, RefusesWhatItDoesNotKnow) {
  const tensor_spec input{.type = element_type::cf32, .shape = {100}};
  const auto kind = [](const char* name) { return settings_of({{"kind", std::string(name)}}); };
  expect_refused("demodulate", {}, {input}, "kind", R"(missing: "fm", "am" or "pm")");
  expect_refused("demodulate", kind("qam"), {input}, "kind", R"(must be "fm", "am" or "pm", not "qam")");
  expect_refused("demodulate", settings_of({{"kind", std::string("fm")}, {"gain", 1e39}}), {input}, "gain", "finite");
  expect_refused("demodulate", kind("fm"), {{.type = element_type::f32, .shape = {100}}}, "from",
                 "takes cf32, not f32");
}

TEST(Demodulate, KeepsNoStateForLevels) {
  const tensor_spec input{.type = element_type::cf32, .shape = {100}};
  const parameters settings = settings_of({{"kind", std::string("am")}});
  EXPECT_FALSE(find_operator("demodulate")->session(settings, std::span{&input, 1}).has_value());
}

}  // namespace
}  // namespace penstock
