#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>

#include <gmock/gmock.h>

#include "tests/kernels/random_input.hpp"
#include "tests/kernels/session_test.hpp"
#include "tests/kernels/wide_range.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using sample = std::complex<double>;

struct filter {
  std::int64_t taps = 1;
  std::int64_t decimation = 1;
  std::int64_t channels = 1;
  bool complex_input = false;
  bool complex_taps = false;

  [[nodiscard]] std::string text() const {
    return std::to_string(taps) + (complex_taps ? " complex" : " real") + " taps, decimation " +
           std::to_string(decimation) + ", " + std::to_string(channels) + (complex_input ? " complex" : " real") +
           " channels";
  }
};

/// y[m] = sum of h[k] · x[D·m − k] in float64, over the whole signal.
std::vector<sample> direct_sum(const std::vector<sample>& x, const std::vector<sample>& h, const filter& of) {
  const auto channels = static_cast<std::size_t>(of.channels);
  const std::size_t steps = x.size() / channels;
  std::vector<sample> y;
  for (std::size_t at = 0; at < steps; at += static_cast<std::size_t>(of.decimation)) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      double re = 0.0;
      double im = 0.0;
      for (std::size_t k = 0; k < h.size() && k <= at; ++k) {
        const sample& value = x[(at - k) * channels + channel];
        re += h[k].real() * value.real() - h[k].imag() * value.imag();
        im += h[k].real() * value.imag() + h[k].imag() * value.real();
      }
      y.emplace_back(re, im);
    }
  }
  return y;
}

std::vector<sample> samples_of(const std::vector<float>& values, bool complex) {
  std::vector<sample> samples;
  for (std::size_t i = 0; i < values.size(); i += complex ? 2 : 1) {
    samples.emplace_back(values[i], complex ? values[i + 1] : 0.0F);
  }
  return samples;
}

/// Of its samples' absolutes squared, the mean; 0 of none.
double power(const std::vector<sample>& of) {
  double sum = 0.0;
  for (const sample& each : of) {
    sum += std::norm(each);
  }
  return of.empty() ? 0.0 : sum / static_cast<double>(of.size());
}

class fir_operation : public session_test {
 protected:
  /// A filter of random taps on sessions that are cut at random.
  struct trial {
    session_case what;
    std::vector<sample> taps;
  };

  trial make(const filter& of, tensor_spec input) {
    trial made{.what = {.op = "fir", .settings = {}, .input = std::move(input)}, .taps = {}};
    std::vector<double> re;
    std::vector<double> im;
    for (std::int64_t k = 0; k < of.taps; ++k) {
      re.push_back(random_.real(-1.0, 1.0));
      im.push_back(of.complex_taps ? random_.real(-1.0, 1.0) : 0.0);
      made.taps.emplace_back(re.back(), im.back());
    }
    made.what.settings.set("taps", re);
    if (of.complex_taps) {
      made.what.settings.set("taps_imag", im);
    }
    made.what.settings.set("decimation", of.decimation);
    made.what.seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30));
    made.what.least_steps = random_.integer(0, 1);
    return made;
  }

  trial make_variable(const filter& of, std::int64_t longest) {
    return make(of, {.type = of.complex_input ? element_type::cf32 : element_type::f32,
                     .shape = {longest, of.channels},
                     .variable = true});
  }

  std::vector<float> signal(const filter& of, std::int64_t steps) {
    return random_.normal(static_cast<std::size_t>(steps * of.channels * (of.complex_input ? 2 : 1)));
  }

  /// Every output within 1e-6 of the session's peak; where that is less than the root mean square of noise of the same
  /// power behind as many taps as the session reaches, as it may be with an output or two, of that.
  void expect_filtered(const std::vector<float>& got, const std::vector<float>& x, const trial& by, const filter& of) {
    const std::vector<sample> in = samples_of(x, of.complex_input);
    const std::vector<sample> expected = direct_sum(in, by.taps, of);
    const std::vector<sample> y = samples_of(got, of.complex_input || of.complex_taps);
    ASSERT_EQ(y.size(), expected.size()) << by.what.text() << ": " << of.text();
    const std::size_t reached = std::min(by.taps.size(), in.size() / static_cast<std::size_t>(of.channels));
    double peak = std::sqrt(power(in) * power(by.taps) * static_cast<double>(reached));
    for (const sample& value : expected) {
      peak = std::max(peak, std::abs(value));
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_LE(std::abs(y[i] - expected[i]), 1e-6 * peak)
          << by.what.text() << ": " << of.text() << ", output " << i << " of " << y.size();
    }
  }

  void expect_all_filtered(const trial& by, const filter& of, const std::vector<std::vector<float>>& signals) {
    const auto got = run<float>(by.what, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      ASSERT_NO_FATAL_FAILURE(expect_filtered(got[session], signals[session], by, of)) << "session " << session;
    }
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(fir_operation);

TEST_P(fir_operation, GivesWhatTheWholeSignalGivesHoweverItIsCut) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t taps : {1, 2, 63, 500}) {
    for (const std::int64_t decimation : {1, 2, 7, 8}) {
      for (const std::int64_t channels : {1, 3}) {
        for (const int kind : {0, 1, 2, 3}) {
          const filter of{taps, decimation, channels, kind % 2 == 1, kind / 2 == 1};
          const trial by = make_variable(of, random_.coin() ? 20 : 170);
          const std::vector<std::vector<float>> signals{signal(of, 1), signal(of, random_.integer(2, 60)),
                                                        signal(of, random_.integer(300, 700))};
          ASSERT_NO_FATAL_FAILURE(expect_all_filtered(by, of, signals));
        }
      }
    }
  }
}

TEST_P(fir_operation, TakesLargeDecimationsAndManyChannels) {
  SCOPED_TRACE(random_.trace());
  for (const filter& of :
       {filter{63, 16, 40}, filter{80, 5, 33, true}, filter{63, 17, 1}, filter{63, 100, 5, true},
        filter{5, 1000, 1, false, true}, filter{4500, 20, 1, true}, filter{4500, 40, 3}, filter{200, 2, 1100},
        filter{4100, 33, 2, true, true}, filter{63, 1, 40}, filter{130, 1, 33, true, true}, filter{64, 1, 5, true}}) {
    const trial by = make_variable(of, 300);
    const std::vector<std::vector<float>> signals{signal(of, 10), signal(of, random_.integer(500, 3000))};
    ASSERT_NO_FATAL_FAILURE(expect_all_filtered(by, of, signals));
  }
}

TEST_P(fir_operation, TakesLongFrames) {
  SCOPED_TRACE(random_.trace());
  for (const filter& of :
       {filter{63, 1, 1}, filter{65, 1, 2, false, true}, filter{63, 8, 1, true}, filter{300, 3, 2, false, true}}) {
    const trial by = make_variable(of, 30000);
    ASSERT_NO_FATAL_FAILURE(expect_all_filtered(by, of, {signal(of, 100000), signal(of, 20000)}));
  }
}

TEST_P(fir_operation, TakesTheMostTaps) {
  SCOPED_TRACE(random_.trace());
  for (const filter& of : {filter{65536, 8, 1}, filter{65536, 512, 1, true}}) {
    const trial by = make_variable(of, 16384);
    ASSERT_NO_FATAL_FAILURE(expect_all_filtered(by, of, {signal(of, of.decimation == 8 ? 5000 : 100000)}));
  }
}

TEST_P(fir_operation, TakesFixedFrames) {
  SCOPED_TRACE(random_.trace());
  for (const filter& of : {filter{63, 8, 1}, filter{63, 8, 3, true}, filter{100, 1, 1, true, true}}) {
    const trial by =
        make(of, {.type = of.complex_input ? element_type::cf32 : element_type::f32, .shape = {32, of.channels}});
    ASSERT_NO_FATAL_FAILURE(expect_all_filtered(by, of, {signal(of, 32 * 25), signal(of, 32), signal(of, 32 * 7)}));
  }
}

TEST_P(fir_operation, KeepsWhatIsNotFiniteInItsSession) {
  SCOPED_TRACE(random_.trace());
  for (const filter& of : {filter{63, 1, 2}, filter{63, 8, 1, true}, filter{63, 40, 3, true, true}}) {
    const trial by = make_variable(of, 50);
    std::vector<std::vector<float>> signals{signal(of, 1500), signal(of, 1500), signal(of, 1500)};
    std::fill(signals[1].begin(), signals[1].end(), std::numeric_limits<float>::quiet_NaN());
    const auto got = run<float>(by.what, signals);
    ASSERT_NO_FATAL_FAILURE(expect_filtered(got[0], signals[0], by, of));
    ASSERT_NO_FATAL_FAILURE(expect_filtered(got[2], signals[2], by, of));
    EXPECT_TRUE(std::all_of(got[1].begin(), got[1].end(), [](float value) { return std::isnan(value); })) << of.text();
  }
}

TEST_P(fir_operation, CarriesANaNAsFarAsItsTapsReach) {
  SCOPED_TRACE(random_.trace());
  const filter of{10, 3, 2};
  const trial by = make_variable(of, 7);
  std::vector<float> x = signal(of, 90);
  x[2 * 40 + 1] = std::numeric_limits<float>::quiet_NaN();
  const auto y = run<float>(by.what, std::vector<std::vector<float>>{x}).front();
  ASSERT_EQ(y.size(), 60U);
  for (std::size_t m = 0; m < 30; ++m) {
    EXPECT_FALSE(std::isnan(y[2 * m])) << m;
    EXPECT_EQ(std::isnan(y[2 * m + 1]), 3 * m >= 40 && 3 * m < 50) << m;
  }
}

TEST_P(fir_operation, CarriesWhatIsNotFiniteAsFarAsManyTapsReach) {
  SCOPED_TRACE(random_.trace());
  for (const filter& of : {filter{700, 1, 1}, filter{700, 1, 2, true}, filter{700, 2, 1, true, true}}) {
    const trial by = make_variable(of, 4000);
    std::vector<float> x = signal(of, 12000);
    const auto width = x.size() / 12000;
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> poisoned = x;
      poisoned[5000 * width] = poison;
      const auto y = run<float>(by.what, std::vector<std::vector<float>>{x, poisoned});
      const std::size_t each = y[0].size() / (12000 / static_cast<std::size_t>(of.decimation));
      for (std::size_t at = 0; at < y[0].size(); at += each) {
        const std::size_t step = at / each * static_cast<std::size_t>(of.decimation);
        EXPECT_EQ(std::isfinite(y[1][at]), step < 5000 || step >= 5700) << of.text() << ", step " << step;
      }
      ASSERT_NO_FATAL_FAILURE(expect_filtered(y[0], x, by, of));
    }
  }
}

struct fir_refusal {
  std::vector<double> taps;
  parameters::value taps_imag;
  parameters::value decimation;
  tensor_spec input;
  const char* field;
  const char* message;
};

TEST(Fir, RefusesWhatItCannotFilterWith) {
  using list = std::vector<double>;
  const tensor_spec input{.type = element_type::f32, .shape = {100}};
  const list one{1.0};
  const std::int64_t no = 1;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<fir_refusal> rows{
      {{}, one, no, input, "taps", "1 to 65536 numbers, not 0"},
      {list(65537), one, no, input, "taps", "not 65537"},
      {{1.0, infinity}, list{1.0, 1.0}, no, input, "taps", "finite"},
      {one, list{1e39}, no, input, "taps_imag", "finite"},
      {one, list{1.0, 2.0}, no, input, "taps_imag", "as many numbers as taps, 1, not 2"},
      {one, 3.0, no, input, "taps_imag", "a list of numbers"},
      {one, one, std::int64_t{0}, input, "decimation", "from 1"},
      {one, one, 2.5, input, "decimation", "an integer"},
      {one, one, std::int64_t{8}, input, "decimation", "use frames of a multiple of it, or \"max 100\""},
      {one, one, no, {.type = element_type::i16, .shape = {100}}, "from", "takes f32 or cf32, not i16[100]"},
  };
  for (const fir_refusal& row : rows) {
    session_case what{.op = "fir", .settings = {}, .input = row.input};
    what.settings.set("taps", row.taps);
    what.settings.set("taps_imag", row.taps_imag);
    what.settings.set("decimation", row.decimation);
    try {
      ADD_FAILURE() << "made " << what.output().text() << "; wanted: " << row.message;
    } catch (const parameter_error& error) {
      EXPECT_EQ(error.field, row.field) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(row.message));
    }
  }
}

TEST(Fir, RefusesToDoWithoutTaps) {
  const session_case what{.op = "fir", .settings = {}, .input = {.type = element_type::f32, .shape = {8}}};
  try {
    ADD_FAILURE() << "made " << what.output().text();
  } catch (const parameter_error& error) {
    EXPECT_EQ(error.field, "taps");
    EXPECT_THAT(error.what(), HasSubstr("missing"));
  }
}

TEST(Fir, SaysHowManyStepsAFrameCanGive) {
  session_case what{.op = "fir", .settings = {}, .input = {element_type::f32, {100, 3}, true}};
  what.settings.set("taps", std::vector<double>{1.0, 2.0});
  what.settings.set("decimation", std::int64_t{8});
  EXPECT_EQ(what.output(), (tensor_spec{element_type::f32, {13, 3}, true}));
  EXPECT_EQ(what.traits().rate, (step_rate{8, 7}));
  EXPECT_FALSE(what.traits().whole_frames);
  what.settings.set("taps_imag", std::vector<double>{0.0, 1.0});
  what.input = {element_type::f32, {96, 3}};
  EXPECT_EQ(what.output(), (tensor_spec{element_type::cf32, {12, 3}}));
}

/// Each output is within 1e-6 of the largest value in the span that it sees, and not finite only where that holds such.
void expect_by_own_span(const std::vector<float>& got, const std::vector<float>& x, const std::vector<double>& h,
                        std::size_t every, std::size_t parts, const std::string& what) {
  const std::size_t steps = x.size() / parts;
  ASSERT_EQ(got.size(), (steps + every - 1) / every * parts) << what;
  for (std::size_t at = 0; at < steps; at += every) {
    for (std::size_t part = 0; part < parts; ++part) {
      double sum = 0.0;
      double peak = 0.0;
      for (std::size_t k = 0; k < h.size() && k <= at; ++k) {
        const auto value = static_cast<double>(x[(at - k) * parts + part]);
        sum += h[k] * value;
        peak = std::max(peak, std::isfinite(value) ? std::abs(value) : std::numeric_limits<double>::infinity());
        const auto other = static_cast<double>(x[(at - k) * parts + (parts - 1 - part)]);
        peak = std::isfinite(other) ? std::max(peak, std::abs(other)) : peak;
      }
      const auto y = static_cast<double>(got[at / every * parts + part]);
      if (std::isinf(peak)) {
        ASSERT_FALSE(std::isfinite(y)) << what << ", output at step " << at;
      } else {
        ASSERT_LE(std::abs(y - sum), 1e-6 * peak + static_cast<double>(std::numeric_limits<float>::min()))
            << what << ", output at step " << at << ": " << y << ", not " << sum << " of a peak of " << peak;
      }
    }
  }
}

TEST_P(fir_operation, GivesEachOutputByItsOwnSpanWhateverElseTheSignalHolds) {
  SCOPED_TRACE(random_.trace());
  for (const char* const method : {"direct", "fft"}) {
    for (const std::int64_t taps : {40, 601}) {
      for (const bool complex : {false, true}) {
        for (const std::int64_t decimation : {1, 3}) {
          session_case what{
              .op = "fir",
              .settings = {},
              .input = {.type = complex ? element_type::cf32 : element_type::f32, .shape = {4096}, .variable = true}};
          const std::vector<double> h = low_pass(taps);
          what.settings.set("taps", h);
          what.settings.set("method", std::string{method});
          what.settings.set("decimation", decimation);
          what.seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30));
          const std::size_t parts = complex ? 2 : 1;
          std::vector<std::vector<float>> signals{wide_range_noise(random_, 6000 * parts),
                                                  wide_range_noise(random_, 3000 * parts)};
          for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            for (std::size_t part = 0; part < parts; ++part) {
              signals[1][static_cast<std::size_t>(random_.integer(0, 2999)) * parts + part] = broken;
            }
          }
          const auto got = run<float>(what, signals);
          for (std::size_t session = 0; session < signals.size(); ++session) {
            ASSERT_NO_FATAL_FAILURE(expect_by_own_span(
                got[session], signals[session], h, static_cast<std::size_t>(decimation), parts,
                std::string(method) + ", " + std::to_string(taps) + (complex ? " taps, complex" : " taps, real") +
                    ", decimation " + std::to_string(decimation) + ", session " + std::to_string(session)));
          }
        }
      }
    }
  }
}

TEST_P(fir_operation, GivesNothingBeforeAnImpulseAtTheEndOfTheRange) {
  for (const float height : {3e38F, 1e20F, 1e-20F}) {
    session_case what{
        .op = "fir", .settings = {}, .input = {.type = element_type::f32, .shape = {4096}, .variable = true}};
    what.settings.set("taps", low_pass(2000));
    std::vector<float> x(4096);
    x[3000] = height;
    const auto y = run<float>(what, std::vector<std::vector<float>>{x})[0];
    const std::vector<float> before(y.begin(), y.begin() + 3000);
    EXPECT_EQ(before, std::vector<float>(3000)) << height;
    EXPECT_NEAR(y[4000] / height, low_pass(2000)[1000], 1e-6) << height;
  }
}

}  // namespace
}  // namespace penstock
