#include "kernels/mix.hpp"

#include <cmath>
#include <complex>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <numbers>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

/// Cycles a step as a ratio, and the numbers that are given for it.
struct ratio {
  double frequency;
  double rate;
  std::int64_t numerator;
  std::int64_t denominator;
};

/// n · numerator / denominator cycles, without the whole ones.
double cycles_at(const ratio& tuned, std::int64_t n) {
  __extension__ using wide = __int128;
  const wide rest = wide{n} * tuned.numerator % tuned.denominator;
  return static_cast<double>(rest) / static_cast<double>(tuned.denominator);
}

const std::vector<ratio>& ratios() {
  static const std::vector<ratio> all{
      {0.25, 1.0, 1, 4},
      {-0.375, 1.0, -3, 8},
      {0.1, 1.0, 3602879701896397, std::int64_t{1} << 55U},  // the float64 next to 0.1
      {1e5, 2.4e6, 1, 24},
      {-97'300'123.0, 2'457'600.0, -97'300'123, 2'457'600},
      {1.0, 3.0, 1, 3},
      {0.0, 1.0, 0, 1},
  };
  return all;
}

class mix_operation : public session_test {
 protected:
  void expect_mixed(const ratio& tuned, bool complex, std::int64_t channels, std::int64_t age, double phase) {
    session_case setup{
        .op = "mix",
        .settings = settings_of({{"frequency", tuned.frequency}, {"rate", tuned.rate}}),
        .input = {
            .type = complex ? element_type::cf32 : element_type::f32, .shape = {700, channels}, .variable = true}};
    setup.settings.set("phase", phase);
    setup.seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30));
    setup.least_steps = random_.integer(0, 1);
    setup.age = age;
    const session_signals signals = random_signals(random_, setup, {1, random_.integer(2, 300), 3001});
    const auto got = run<float>(setup, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      const std::vector<float>& x = signals[session];
      const std::size_t parts = complex ? 2 : 1;
      std::vector<double> expected;
      for (std::size_t at = 0; at < x.size(); at += parts) {
        const std::int64_t n = age + static_cast<std::int64_t>(at / parts) / channels;
        const std::complex<double> value{x[at], complex ? x[at + 1] : 0.0F};
        const auto y = value * std::polar(1.0, 2.0 * std::numbers::pi * (cycles_at(tuned, n) + phase));
        expected.push_back(y.real());
        expected.push_back(y.imag());
      }
      ASSERT_NO_FATAL_FAILURE(expect_close(got[session], expected, 1e-6, setup.text()))
          << tuned.frequency << " of " << tuned.rate << ", from step " << age;
    }
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(mix_operation);

TEST_P(mix_operation, TurnsEachStepByItsPlaceInTheSession) {
  SCOPED_TRACE(random_.trace());
  for (const ratio& tuned : ratios()) {
    for (const bool complex : {false, true}) {
      for (const std::int64_t channels : {1, 3, 64}) {
        ASSERT_NO_FATAL_FAILURE(expect_mixed(tuned, complex, channels, 0, channels == 1 ? 0.0 : -0.3));
      }
    }
  }
}

TEST_P(mix_operation, KeepsItsPhaseForAsLongAsASessionCanLast) {
  SCOPED_TRACE(random_.trace());
  for (const ratio& tuned : ratios()) {
    for (const std::int64_t earlier : {(std::int64_t{1} << 32U) - 1000, std::int64_t{1} << 53U,
                                       (std::int64_t{1} << 62U) + random_.integer(0, 1 << 30)}) {
      ASSERT_NO_FATAL_FAILURE(expect_mixed(tuned, true, 1, earlier, 0.125));
    }
  }
}

TEST_P(mix_operation, GivesTheSameBitsHoweverASessionIsCut) {
  SCOPED_TRACE(random_.trace());
  session_case setup{.op = "mix",
                     .settings = settings_of({{"frequency", random_.real(-0.5, 0.5)}}),
                     .input = {.type = element_type::cf32, .shape = {5000}, .variable = true}};
  const std::vector<std::vector<float>> signal{random_.normal(2 * 5000)};
  const auto first = run<float>(setup, signal);
  for (std::uint64_t seed = 2; seed < 6; ++seed) {
    setup.seed = seed;
    EXPECT_EQ(run<float>(setup, signal), first) << seed;
  }
}

/// As an exact number of 2⁻⁶⁰ cycles, which frequencies of 2⁻²⁰ … 2⁻¹ cycles give for each step below 2⁶².
TEST_P(mix_operation, GoesOnFromItsPhaseWhereTheFrequencyChanges) {
  SCOPED_TRACE(random_.trace());
  constexpr double unit = 0x1p-60;
  for (const std::int64_t channels : {1, 3, 64}) {
    for (const bool complex : {false, true}) {
      session_case setup{
          .op = "mix",
          .settings = settings_of({{"frequency", 0.25}}),
          .input = {
              .type = complex ? element_type::cf32 : element_type::f32, .shape = {500, channels}, .variable = true}};
      setup.settings.set("phase", 0.125);
      setup.least_steps = random_.integer(0, 1);
      // The session has had the frequency so long with which its first batch ends, so that is one frame.
      setup.aged_from = 1;
      setup.max_frames = channels == 1 ? 1 : 6;
      setup.age = channels == 1 ? (std::int64_t{1} << 61U) + random_.integer(0, 1 << 20) : 0;
      const session_signals signals = random_signals(random_, setup, {1, 700, 4001});
      // What is counted of each session: the units since its start, and at which step the frequency is which.
      struct tuning {
        std::map<std::int64_t, std::int64_t> units_from;
      };
      std::vector<tuning> told(signals.size());
      setup.numbers = [&](std::size_t session, std::int64_t step) {
        auto& from = told[session].units_from;
        const bool stays = !from.empty() && random_.integer(0, 2) == 0;
        from[step] = stays ? from.rbegin()->second : random_.integer(-(1 << 19), 1 << 19) << 40U;
        return std::vector<double>{static_cast<double>(from[step]) * unit};
      };
      const auto got = run<float>(setup, signals);
      for (std::size_t session = 0; session < signals.size(); ++session) {
        const std::size_t parts = complex ? 2 : 1;
        const std::vector<float>& x = signals[session];
        std::uint64_t phase = std::uint64_t{1} << 57U;  // modulo a cycle of 2⁶⁰ units
        std::int64_t units = 0;
        std::vector<double> expected;
        for (std::size_t at = 0; at < x.size(); at += parts) {
          const std::int64_t n = static_cast<std::int64_t>(at / parts) / channels;
          if (static_cast<std::int64_t>(at / parts) % channels == 0) {
            phase += static_cast<std::uint64_t>(n > 0 ? units : 0);
            if (const auto changed = told[session].units_from.find(n); changed != told[session].units_from.end()) {
              if (n > 0 && changed == std::next(told[session].units_from.begin())) {
                phase += static_cast<std::uint64_t>(setup.age) * static_cast<std::uint64_t>(units);
              }
              units = changed->second;
            }
          }
          const double cycles = static_cast<double>(phase % (std::uint64_t{1} << 60U)) * unit;
          const std::complex<double> value{x[at], complex ? x[at + 1] : 0.0F};
          const auto y = value * std::polar(1.0, 2.0 * std::numbers::pi * cycles);
          expected.push_back(y.real());
          expected.push_back(y.imag());
        }
        ASSERT_NO_FATAL_FAILURE(
            expect_close(got[session], expected, 1e-6, setup.text() + ", session " + std::to_string(session)));
      }
    }
  }
}

TEST_P(mix_operation, GivesTheSameBitsWhereTheFrequencyCouldChange) {
  SCOPED_TRACE(random_.trace());
  for (const double rate : {1.0, 2.4e6}) {
    const double frequency = random_.real(-0.5, 0.5) * rate;
    session_case setup{.op = "mix",
                       .settings = settings_of({{"frequency", frequency}, {"rate", rate}}),
                       .input = {.type = element_type::cf32, .shape = {900}, .variable = true}};
    const session_signals signals = random_signals(random_, setup, {5000, 77});
    const auto fixed = run<float>(setup, signals);
    setup.numbers = [&](std::size_t /*session*/, std::int64_t /*step*/) { return std::vector<double>{frequency}; };
    setup.seed = 7;
    EXPECT_EQ(run<float>(setup, signals), fixed) << rate;
  }
}

TEST_P(mix_operation, TakesFixedFrames) {
  SCOPED_TRACE(random_.trace());
  const session_case setup{
      .op = "mix", .settings = settings_of({{"frequency", 0.25}}), .input = {.type = element_type::f32, .shape = {6}}};
  const std::vector<std::vector<float>> ones{std::vector<float>(18, 1.0F)};
  const auto got = run<float>(setup, ones).front();
  for (std::size_t n = 0; n < 18; ++n) {
    EXPECT_NEAR(got[2 * n], n % 2 == 1 ? 0.0 : n % 4 == 0 ? 1.0 : -1.0, 1e-6) << n;
    EXPECT_NEAR(got[2 * n + 1], n % 2 == 0 ? 0.0 : n % 4 == 1 ? 1.0 : -1.0, 1e-6) << n;
  }
}

TEST(Mix, TakesTheRatioOfItsNumbersExactly) {
  const auto step = [](double frequency, double rate) {
    const cycle_fraction made = fraction_of(frequency, rate);
    return std::pair{made.high, made.low};
  };
  const std::uint64_t all = ~std::uint64_t{0};
  EXPECT_EQ(step(0.5, 1.0), (std::pair{std::uint64_t{1} << 63U, std::uint64_t{0}}));
  EXPECT_EQ(step(1.0, 3.0), (std::pair{all / 3, all / 3}));
  EXPECT_EQ(step(-1.0, 3.0), (std::pair{all - all / 3, all - all / 3 + 1}));
  EXPECT_EQ(step(7.0, 3.0), (std::pair{all / 3, all / 3}));
  EXPECT_EQ(step(1e300, 1.0), (std::pair{std::uint64_t{0}, std::uint64_t{0}}));
  EXPECT_EQ(step(0x1p-128, 1.0), (std::pair{std::uint64_t{0}, std::uint64_t{1}}));
  EXPECT_EQ(step(0x1.8p-60, 1.0), (std::pair{std::uint64_t{24}, std::uint64_t{0}}));
  EXPECT_EQ(step(3.0, 0x1p100), (std::pair{std::uint64_t{0}, std::uint64_t{3} << 28U}));
  EXPECT_EQ(step(0.0, 48000.0), (std::pair{std::uint64_t{0}, std::uint64_t{0}}));
}

TEST(Mix, RefusesWhatItCannotMixWith) {
  const tensor_spec input{.type = element_type::cf32, .shape = {100}};
  const double infinity = std::numeric_limits<double>::infinity();
  expect_refused("mix", {}, {input}, "frequency", "missing");
  expect_refused("mix", settings_of({{"frequency", infinity}}), {input}, "frequency", "finite");
  expect_refused("mix", settings_of({{"frequency", 1.0}, {"rate", 0.0}}), {input}, "rate", "above 0");
  expect_refused("mix", settings_of({{"frequency", 1.0}, {"rate", -8.0}}), {input}, "rate", "above 0");
  expect_refused("mix", settings_of({{"frequency", 1.0}, {"phase", infinity}}), {input}, "phase", "finite");
  expect_refused("mix", settings_of({{"frequency", 1.0}}), {{.type = element_type::ci16, .shape = {100}}}, "from",
                 "takes f32 or cf32, not ci16[100]");
}

}  // namespace
}  // namespace penstock
