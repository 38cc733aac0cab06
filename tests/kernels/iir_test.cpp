#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "tests/kernels/operation_test.hpp"

namespace penstock {
namespace {

using coefficients = std::vector<double>;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// scipy.signal.butter(4, 0.001, output="sos"): poles within 0.003 of the unit circle.
const coefficients narrow_low_pass{6.063149717621949e-12,
                                   1.2126299435243898e-11,
                                   6.063149717621949e-12,
                                   1.0,
                                   -1.9942020618642575,
                                   0.9942119028974503,
                                   1.0,
                                   2.0,
                                   1.0,
                                   1.0,
                                   -1.997588562550215,
                                   0.9975984202951876};

/// scipy.signal.butter(3, [0.2, 0.3], "bandpass", output="sos").
const coefficients band_pass{0.0028981946337214323,
                             0.005796389267442865,
                             0.0028981946337214323,
                             1.0,
                             -1.23606797749979,
                             0.726542528005361,
                             1.0,
                             0.0,
                             -1.0,
                             1.0,
                             -1.113722824256892,
                             0.8373884342455895,
                             1.0,
                             -2.0,
                             1.0,
                             1.0,
                             -1.4976362456519323,
                             0.8745510295142471};

/// The difference equation of one section after the other, over the whole signal.
std::vector<double> difference_equation(const std::vector<float>& input, std::size_t lanes, const coefficients& c) {
  std::vector<double> x(input.begin(), input.end());
  for (std::size_t section = 0; section < c.size(); section += 6) {
    std::vector<double> y(x.size());
    for (std::size_t at = 0; at < x.size(); ++at) {
      double sum = 0.0;
      for (std::size_t back = 0; back <= 2 && back <= at / lanes; ++back) {
        sum += c[section + back] * x[at - back * lanes];
        sum -= back == 0 ? 0.0 : c[section + 3 + back] * y[at - back * lanes];
      }
      y[at] = sum / c[section + 3];
    }
    x = std::move(y);
  }
  return x;
}

/// The same where invalid samples give NaN: each lane by itself, either as a session for each run between them, or as
/// one session without them.
std::vector<double> without_invalid(const std::vector<float>& input, std::size_t lanes, const coefficients& c,
                                    bool reset) {
  std::vector<double> results(input.size(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    std::vector<float> run;
    std::vector<std::size_t> places;
    const auto finish = [&] {
      const std::vector<double> filtered = difference_equation(run, 1, c);
      for (std::size_t at = 0; at < places.size(); ++at) {
        results[places[at]] = filtered[at];
      }
      run.clear();
      places.clear();
    };
    for (std::size_t at = lane; at < input.size(); at += lanes) {
      if (std::isfinite(input[at])) {
        run.push_back(input[at]);
        places.push_back(at);
      } else if (reset) {
        finish();
      }
    }
    finish();
  }
  return results;
}

class iir_operation : public session_test {
 protected:
  session_case make(const coefficients& sections, tensor_spec input) {
    session_case setup{.op = "iir", .settings = {}, .input = std::move(input)};
    setup.settings.set("sections", sections);
    setup.seed = static_cast<std::uint64_t>(random_.integer(1, 1'000'000'000));
    setup.least_steps = random_.integer(0, 1);
    return setup;
  }

  /// Poles up to 0.98 from the middle, as pairs; a0 is not 1.
  coefficients any_sections() {
    coefficients made;
    for (std::int64_t left = random_.integer(1, 6); left > 0; --left) {
      const double radius = random_.real(0.0, 0.98);
      const double a0 = random_.coin() ? 1.0 : random_.real(-3.0, -0.5);
      const double a1 = -2.0 * radius * std::cos(random_.real(0.0, std::numbers::pi));
      for (const double value :
           {random_.real(-1.0, 1.0), random_.real(-1.0, 1.0), random_.real(-1.0, 1.0), 1.0, a1, radius * radius}) {
        made.push_back(value * a0);
      }
    }
    return made;
  }

  void expect_filtered(const session_case& setup, const session_signals& signals) {
    const auto filtered = run<float>(setup, signals);
    const std::size_t lanes = setup.input_step_bytes() / sizeof(float);
    ASSERT_EQ(filtered.size(), signals.size());
    for (std::size_t session = 0; session < signals.size(); ++session) {
      ASSERT_NO_FATAL_FAILURE(expect_close(
          filtered[session], difference_equation(signals[session], lanes, setup.settings.numbers("sections")), 1e-5,
          setup.text() + ", session " + std::to_string(session)));
    }
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(iir_operation);

TEST_P(iir_operation, GoesOnBehindInvalidSamplesWhereAsked) {
  SCOPED_TRACE(random_.trace());
  for (const bool reset : {false, true}) {
    for (const std::int64_t channels : {1, 3, 13}) {
      const coefficients sections = channels == 3 ? band_pass : any_sections();
      session_case setup = make(sections, {.type = element_type::f32, .shape = {100, channels}, .variable = true});
      setup.settings.set("on_nan", std::string{reset ? "reset" : "hold"});
      session_signals signals = random_signals(random_, setup, {1, 300, 1001});
      signals[0][0] = nan;
      for (std::size_t at = 50; at + 3 < signals[2].size(); at += 101) {
        signals[2][at] = at % 2 == 0 ? nan : infinity;
        signals[2][at + 2] = -infinity;
      }
      const auto filtered = run<float>(setup, signals);
      for (std::size_t session = 0; session < signals.size(); ++session) {
        ASSERT_NO_FATAL_FAILURE(expect_close(
            filtered[session], without_invalid(signals[session], static_cast<std::size_t>(channels), sections, reset),
            1e-5, setup.text() + (reset ? ", reset" : ", hold") + ", session " + std::to_string(session)));
      }
    }
  }
}

TEST_P(iir_operation, MatchesTheDifferenceEquationHoweverTheSessionsAreCut) {
  SCOPED_TRACE(random_.trace());
  static constexpr std::int64_t channels[] = {1, 2, 3, 4, 7, 19, 64};
  for (int round = 0; round < 50; ++round) {
    tensor_spec input{.type = random_.coin() ? element_type::f32 : element_type::cf32,
                      .shape = {random_.integer(1, round % 2 == 0 ? 30 : 700), channels[round % 7]},
                      .variable = random_.coin()};
    const session_case setup = make(any_sections(), input);
    ASSERT_NO_FATAL_FAILURE(
        expect_filtered(setup, random_signals(random_, setup, {random_.integer(1, 2000), 1, 500}, 1.0)));
  }
}

TEST_P(iir_operation, MatchesTheDifferenceEquationInFramesLongerThanAnyTile) {
  SCOPED_TRACE(random_.trace());
  for (const element_type type : {element_type::f32, element_type::cf32}) {
    for (const coefficients& sections : {band_pass, narrow_low_pass}) {
      const session_case setup = make(sections, {.type = type, .shape = {20000}, .variable = true});
      ASSERT_NO_FATAL_FAILURE(expect_filtered(setup, random_signals(random_, setup, {30000, 4096, 8193}, 1.0)));
    }
  }
}

TEST_P(iir_operation, MatchesTheDifferenceEquationInFramesThatManyBlocksShare) {
  SCOPED_TRACE(random_.trace());
  const tensor_spec shapes[] = {{.type = element_type::f32, .shape = {300'000}, .variable = true},
                                {.type = element_type::cf32, .shape = {150'001}},
                                {.type = element_type::f32, .shape = {30'000, 9}, .variable = true}};
  for (const tensor_spec& input : shapes) {
    for (const coefficients& sections : {band_pass, narrow_low_pass}) {
      const session_case setup = make(sections, input);
      const std::int64_t steps = input.shape.front();
      ASSERT_NO_FATAL_FAILURE(expect_filtered(setup, random_signals(random_, setup, {2 * steps, steps}, 1.0)));
    }
  }
}

TEST_P(iir_operation, KeepsANanFromTheStepsBeforeItInALongFrame) {
  SCOPED_TRACE(random_.trace());
  const session_case setup = make(band_pass, {.type = element_type::f32, .shape = {100'000, 2}});
  const auto clean = random_signals(random_, setup, {100'000});
  const std::vector<double> expected = difference_equation(clean[0], 2, band_pass);
  for (const std::size_t step : {std::size_t{0}, std::size_t{16'383}, std::size_t{16'384}, std::size_t{70'001}}) {
    auto signals = clean;
    signals[0][2 * step + 1] = nan;
    const auto filtered = run<float>(setup, signals);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (i % 2 == 1 && i >= 2 * step + 1) {
        ASSERT_TRUE(std::isnan(filtered[0][i])) << setup.text() << ", NaN at step " << step << ", value " << i;
      } else {
        ASSERT_NEAR(filtered[0][i], expected[i], 1e-5) << setup.text() << ", NaN at step " << step << ", value " << i;
      }
    }
  }
}

TEST_P(iir_operation, TakesAsManySectionsAsThereMayBe) {
  SCOPED_TRACE(random_.trace());
  coefficients sections;
  for (int section = 0; section < 64; ++section) {
    const double a1 = section % 2 == 0 ? 0.4 : -0.7;
    sections.insert(sections.end(), {1.0, a1 - 0.1, 0.2, 1.0, a1, 0.3});
  }
  const session_case setup = make(sections, {.type = element_type::f32, .shape = {300, 9}, .variable = true});
  ASSERT_NO_FATAL_FAILURE(expect_filtered(setup, random_signals(random_, setup, {700, 200})));
}

TEST_P(iir_operation, GivesWhatScipyGives) {
  const session_case setup = make(band_pass, {.type = element_type::f32, .shape = {4}});
  const auto filtered = run<float>(setup, session_signals{{1.0F, 0.0F, 0.0F, -2.0F, 0.0F, 0.0F, 0.0F, 0.0F}});
  const std::vector<double> expected{0.0028981946337214323,  0.011150592422434342, 0.012950420132300829,
                                     -0.013687693200749074,  -0.06358568974782822, -0.07827633139614601,
                                     -0.0017080638169793341, 0.13026358933638713};
  ASSERT_NO_FATAL_FAILURE(expect_close(filtered[0], expected, 1e-6, setup.text()));
}

TEST_P(iir_operation, KeepsANanInItsChannelAndSession) {
  SCOPED_TRACE(random_.trace());
  for (const float poison : {nan, infinity}) {
    const session_case setup = make(band_pass, {.type = element_type::f32, .shape = {300, 3}, .variable = true});
    const auto clean = random_signals(random_, setup, {1000, 1000, 1000});
    auto signals = clean;
    signals[1][3 * 400 + 1] = poison;
    const auto filtered = run<float>(setup, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      const auto expected = difference_equation(clean[session], 3, band_pass);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (session == 1 && i % 3 == 1 && i >= 3 * 400) {
          ASSERT_FALSE(std::isfinite(filtered[session][i])) << setup.text() << ", value " << i;
        } else {
          ASSERT_NEAR(filtered[session][i], expected[i], 1e-5) << setup.text() << ", value " << i;
        }
      }
    }
  }
}

TEST_P(iir_operation, FadesToZeroInSilence) {
  const session_case setup = make(band_pass, {.type = element_type::f32, .shape = {2000}});
  std::vector<float> signal(20'000, 0.0F);
  signal[0] = 1.0F;
  const auto filtered = run<float>(setup, session_signals{signal});
  EXPECT_NE(filtered[0][100], 0.0F);
  EXPECT_EQ(std::vector<float>(filtered[0].begin() + 10'000, filtered[0].end()), std::vector<float>(10'000, 0.0F));
}

TEST(Iir, RefusesWhatItCannotDo) {
  const tensor_spec input{.type = element_type::f32, .shape = {8}};
  const auto sections = [](parameters::value value) {
    parameters settings;
    settings.set("sections", std::move(value));
    return settings;
  };
  const double nowhere = std::numeric_limits<double>::quiet_NaN();
  expect_refused("iir", {}, {input}, "sections", "is missing");
  expect_refused("iir", sections(1.0), {input}, "sections", "a list of numbers");
  expect_refused("iir", sections(coefficients{}), {input}, "sections", "not 0");
  expect_refused("iir", sections(coefficients{1.0, 0.0, 0.0, 1.0, 0.0}), {input}, "sections", "b0 b1 b2 a0 a1 a2");
  expect_refused("iir", sections(coefficients(6 * 65, 0.1)), {input}, "sections", "1 to 64 sections");
  expect_refused("iir", sections(coefficients{1.0, nowhere, 0.0, 1.0, 0.0, 0.0}), {input}, "sections", "finite");
  expect_refused("iir", sections(coefficients{1.0, 0.0, 0.0, 0.0, 0.0, 0.0}), {input}, "sections", "a0 = 0");
  expect_refused("iir", sections(coefficients{1e300, 0.0, 0.0, 1e-300, 0.0, 0.0}), {input}, "sections", "finite");
  expect_refused("iir", sections(coefficients{1.0, 0.0, 0.0, 1.0, 0.0, 1.0}), {input}, "sections", "section 0");
  expect_refused("iir", sections(coefficients{1.0, 0.0, 0.0, 2.0, -3.0, 1.0}), {input}, "sections", "unit circle");
  expect_refused("iir", sections(coefficients{1.0, 0.0, 0.0, 1.0, 0.5, 0.5, 1.0, 0.0, 0.0, 1.0, 1.6, 0.6}), {input},
                 "sections", "section 1");
  expect_refused("iir", sections(band_pass), {{.type = element_type::i16, .shape = {8}}}, "from", "takes f32 or cf32");
}

}  // namespace
}  // namespace penstock
