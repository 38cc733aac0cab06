#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <string>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

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
std::vector<sample> direct_sum(const std::vector<sample>& x, const std::vector<sample>& h, const filter& design) {
  const auto channels = static_cast<std::size_t>(design.channels);
  const std::size_t steps = x.size() / channels;
  std::vector<sample> y;
  for (std::size_t at = 0; at < steps; at += static_cast<std::size_t>(design.decimation)) {
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

/// The same where a sample that is not finite gives NaN: each channel by itself goes on without it, or from rest.
std::vector<sample> without_invalid(const std::vector<sample>& x, const std::vector<sample>& h, const filter& design,
                                    bool reset) {
  const auto channels = static_cast<std::size_t>(design.channels);
  const auto decimation = static_cast<std::size_t>(design.decimation);
  const filter plain{.taps = design.taps};
  const double none = std::numeric_limits<double>::quiet_NaN();
  std::vector<sample> every(x.size(), sample{none, none});
  for (std::size_t channel = 0; channel < channels; ++channel) {
    std::vector<sample> came;
    std::vector<std::size_t> places;
    const auto finish = [&] {
      const std::vector<sample> filtered = direct_sum(came, h, plain);
      for (std::size_t at = 0; at < places.size(); ++at) {
        every[places[at]] = filtered[at];
      }
      came.clear();
      places.clear();
    };
    for (std::size_t at = channel; at < x.size(); at += channels) {
      if (std::isfinite(x[at].real()) && std::isfinite(x[at].imag())) {
        came.push_back(x[at]);
        places.push_back(at);
      } else if (reset) {
        finish();
      }
    }
    finish();
  }
  std::vector<sample> kept;
  for (std::size_t at = 0; at < every.size(); ++at) {
    if (at / channels % decimation == 0) {
      kept.push_back(every[at]);
    }
  }
  return kept;
}

/// Mean of the squared magnitudes; 0 for no samples.
double power(const std::vector<sample>& values) {
  double sum = 0.0;
  for (const sample& each : values) {
    sum += std::norm(each);
  }
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

class fir_operation : public session_test {
 protected:
  /// A filter of random taps on sessions that are cut at random.
  struct trial {
    session_case setup;
    std::vector<sample> taps;
  };

  trial make(const filter& design, tensor_spec input) {
    trial made{.setup = {.op = "fir", .settings = {}, .input = std::move(input)}, .taps = {}};
    std::vector<double> re;
    std::vector<double> im;
    for (std::int64_t k = 0; k < design.taps; ++k) {
      re.push_back(random_.real(-1.0, 1.0));
      im.push_back(design.complex_taps ? random_.real(-1.0, 1.0) : 0.0);
      made.taps.emplace_back(re.back(), im.back());
    }
    made.setup.settings.set("taps", re);
    if (design.complex_taps) {
      made.setup.settings.set("taps_imag", im);
    }
    made.setup.settings.set("decimation", design.decimation);
    made.setup.seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30));
    made.setup.least_steps = random_.integer(0, 1);
    return made;
  }

  trial make_variable(const filter& design, std::int64_t longest) {
    return make(design, {.type = design.complex_input ? element_type::cf32 : element_type::f32,
                         .shape = {longest, design.channels},
                         .variable = true});
  }

  std::vector<float> signal(const filter& design, std::int64_t steps) {
    return random_.normal(static_cast<std::size_t>(steps * design.channels * (design.complex_input ? 2 : 1)));
  }

  /// Every output within 1e-6 of the session's peak; where that is less than the root mean square of noise of the same
  /// power behind as many taps as the session reaches, as it may be with an output or two, of that.
  void expect_filtered(const std::vector<float>& got, const std::vector<float>& x, const trial& attempt,
                       const filter& design) {
    const std::vector<sample> in = samples_of(x, design.complex_input);
    const std::vector<sample> expected = direct_sum(in, attempt.taps, design);
    const std::vector<sample> y = samples_of(got, design.complex_input || design.complex_taps);
    ASSERT_EQ(y.size(), expected.size()) << attempt.setup.text() << ": " << design.text();
    const std::size_t reached = std::min(attempt.taps.size(), in.size() / static_cast<std::size_t>(design.channels));
    double peak = std::sqrt(power(in) * power(attempt.taps) * static_cast<double>(reached));
    for (const sample& value : expected) {
      peak = std::max(peak, std::abs(value));
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_LE(std::abs(y[i] - expected[i]), 1e-6 * peak)
          << attempt.setup.text() << ": " << design.text() << ", output " << i << " of " << y.size();
    }
  }

  void expect_all_filtered(const trial& attempt, const filter& design, const std::vector<std::vector<float>>& signals) {
    const auto got = run<float>(attempt.setup, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      ASSERT_NO_FATAL_FAILURE(expect_filtered(got[session], signals[session], attempt, design))
          << "session " << session;
    }
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(fir_operation);

TEST_P(fir_operation, GivesWhatTheWholeSignalGivesHoweverItIsCut) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t taps : {1, 2, 63, 500}) {
    for (const std::int64_t decimation : {1, 2, 7, 8}) {
      for (const std::int64_t channels : {1, 3, 64}) {
        for (const int kind : {0, 1, 2, 3}) {
          const filter design{taps, decimation, channels, kind % 2 == 1, kind / 2 == 1};
          const trial attempt = make_variable(design, random_.coin() ? 20 : 170);
          const std::vector<std::vector<float>> signals{
              signal(design, 1), signal(design, random_.integer(2, 60)),
              signal(design, channels == 64 ? 70 : random_.integer(300, 700))};
          ASSERT_NO_FATAL_FAILURE(expect_all_filtered(attempt, design, signals));
        }
      }
    }
  }
}

TEST_P(fir_operation, TakesLargeDecimationsAndManyChannels) {
  SCOPED_TRACE(random_.trace());
  for (const filter& design :
       {filter{63, 16, 40}, filter{80, 5, 33, true}, filter{63, 17, 1}, filter{63, 100, 5, true},
        filter{5, 1000, 1, false, true}, filter{4500, 20, 1, true}, filter{4500, 40, 3}, filter{200, 2, 1100},
        filter{4100, 33, 2, true, true}, filter{63, 1, 40}, filter{130, 1, 33, true, true}, filter{64, 1, 5, true}}) {
    const trial attempt = make_variable(design, 300);
    const std::vector<std::vector<float>> signals{signal(design, 10), signal(design, random_.integer(500, 3000))};
    ASSERT_NO_FATAL_FAILURE(expect_all_filtered(attempt, design, signals));
  }
}

TEST_P(fir_operation, TakesLongFrames) {
  SCOPED_TRACE(random_.trace());
  for (const filter& design :
       {filter{63, 1, 1}, filter{65, 1, 2, false, true}, filter{63, 8, 1, true}, filter{300, 3, 2, false, true}}) {
    const trial attempt = make_variable(design, 30000);
    ASSERT_NO_FATAL_FAILURE(expect_all_filtered(attempt, design, {signal(design, 100000), signal(design, 20000)}));
  }
}

TEST_P(fir_operation, TakesTheMostTaps) {
  SCOPED_TRACE(random_.trace());
  for (const filter& design : {filter{65536, 8, 1}, filter{65536, 512, 1, true}}) {
    const trial attempt = make_variable(design, 16384);
    ASSERT_NO_FATAL_FAILURE(
        expect_all_filtered(attempt, design, {signal(design, design.decimation == 8 ? 5000 : 100000)}));
  }
}

TEST_P(fir_operation, GoesOnBehindBillionsOfSteps) {
  SCOPED_TRACE(random_.trace());
  for (const std::int64_t earlier : {(std::int64_t{3} << 31U) + 5, (std::int64_t{1} << 53U) + 7}) {
    for (const filter& design :
         {filter{63, 7, 3}, filter{33, 3, 1, true, true}, filter{64, 1, 2}, filter{200, 40, 64}}) {
      for (const std::string method : {"direct", "fft"}) {
        trial attempt = make_variable(design, 170);
        attempt.setup.settings.set("method", method);
        // A whole number of decimations before the first step, all zeros: as if the session began there.
        attempt.setup.age = earlier / design.decimation * design.decimation;
        ASSERT_NO_FATAL_FAILURE(expect_all_filtered(attempt, design, {signal(design, 1), signal(design, 300)}))
            << method << ", from step " << attempt.setup.age;
      }
    }
  }
}

TEST_P(fir_operation, GoesOnBehindInvalidSamplesWhereAsked) {
  SCOPED_TRACE(random_.trace());
  for (const filter& design : {filter{1, 1, 1}, filter{9, 1, 3}, filter{64, 3, 1, true}, filter{65, 1, 2, false, true},
                               filter{129, 40, 64}, filter{33, 2, 5, true, true}, filter{300, 1, 1, true}}) {
    for (const bool reset : {false, true}) {
      for (const std::string method : {"direct", "fft"}) {
        trial attempt = make_variable(design, random_.coin() ? 30 : 170);
        attempt.setup.settings.set("on_nan", std::string{reset ? "reset" : "hold"});
        attempt.setup.age = random_.coin() ? ((std::int64_t{3} << 31U) + 5) / design.decimation * design.decimation : 0;
        attempt.setup.settings.set("method", method);
        // The last has valid batches behind an invalid one.
        std::vector<std::vector<float>> signals{signal(design, 1), signal(design, 700), signal(design, 400),
                                                signal(design, 1500)};
        random_.spoil(signals[1]);
        random_.spoil(signals[2]);
        signals[3][static_cast<std::size_t>(random_.integer(0, 100 * design.channels))] =
            std::numeric_limits<float>::quiet_NaN();
        const auto got = run<float>(attempt.setup, signals);
        for (std::size_t session = 0; session < signals.size(); ++session) {
          const std::vector<sample> expected =
              without_invalid(samples_of(signals[session], design.complex_input), attempt.taps, design, reset);
          std::vector<double> parts;
          for (const sample& each : expected) {
            parts.push_back(each.real());
            if (design.complex_input || design.complex_taps) {
              parts.push_back(each.imag());
            }
          }
          // An output of one or two may lie far below what is summed for it.
          parts.push_back(std::sqrt(static_cast<double>(design.taps)));
          std::vector<float> results = got[session];
          results.push_back(static_cast<float>(parts.back()));
          ASSERT_NO_FATAL_FAILURE(expect_close(results, parts, 1e-6,
                                               attempt.setup.text() + ": " + design.text() + ", " + method +
                                                   (reset ? ", reset" : ", hold") + ", session " +
                                                   std::to_string(session)));
        }
      }
    }
  }
}

TEST_P(fir_operation, TakesFixedFrames) {
  SCOPED_TRACE(random_.trace());
  for (const filter& design : {filter{63, 8, 1}, filter{63, 8, 3, true}, filter{100, 1, 1, true, true}}) {
    const trial attempt = make(design, {.type = design.complex_input ? element_type::cf32 : element_type::f32,
                                        .shape = {32, design.channels}});
    ASSERT_NO_FATAL_FAILURE(
        expect_all_filtered(attempt, design, {signal(design, 32 * 25), signal(design, 32), signal(design, 32 * 7)}));
  }
}

TEST_P(fir_operation, KeepsWhatIsNotFiniteInItsSession) {
  SCOPED_TRACE(random_.trace());
  for (const filter& design : {filter{63, 1, 2}, filter{63, 8, 1, true}, filter{63, 40, 3, true, true}}) {
    const trial attempt = make_variable(design, 50);
    std::vector<std::vector<float>> signals{signal(design, 1500), signal(design, 1500), signal(design, 1500)};
    std::fill(signals[1].begin(), signals[1].end(), std::numeric_limits<float>::quiet_NaN());
    const auto got = run<float>(attempt.setup, signals);
    ASSERT_NO_FATAL_FAILURE(expect_filtered(got[0], signals[0], attempt, design));
    ASSERT_NO_FATAL_FAILURE(expect_filtered(got[2], signals[2], attempt, design));
    EXPECT_TRUE(std::all_of(got[1].begin(), got[1].end(), [](float value) { return std::isnan(value); }))
        << design.text();
  }
}

TEST_P(fir_operation, CarriesANaNAsFarAsItsTapsReach) {
  SCOPED_TRACE(random_.trace());
  const filter design{10, 3, 2};
  const trial attempt = make_variable(design, 7);
  std::vector<float> x = signal(design, 90);
  x[2 * 40 + 1] = std::numeric_limits<float>::quiet_NaN();
  const auto y = run<float>(attempt.setup, std::vector<std::vector<float>>{x}).front();
  ASSERT_EQ(y.size(), 60U);
  for (std::size_t m = 0; m < 30; ++m) {
    EXPECT_FALSE(std::isnan(y[2 * m])) << m;
    EXPECT_EQ(std::isnan(y[2 * m + 1]), 3 * m >= 40 && 3 * m < 50) << m;
  }
}

TEST_P(fir_operation, CarriesWhatIsNotFiniteAsFarAsManyTapsReach) {
  SCOPED_TRACE(random_.trace());
  for (const filter& design : {filter{700, 1, 1}, filter{700, 1, 2, true}, filter{700, 2, 1, true, true}}) {
    const trial attempt = make_variable(design, 4000);
    std::vector<float> x = signal(design, 12000);
    const auto width = x.size() / 12000;
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> poisoned = x;
      poisoned[5000 * width] = poison;
      const auto y = run<float>(attempt.setup, std::vector<std::vector<float>>{x, poisoned});
      const std::size_t each = y[0].size() / (12000 / static_cast<std::size_t>(design.decimation));
      for (std::size_t at = 0; at < y[0].size(); at += each) {
        const std::size_t step = at / each * static_cast<std::size_t>(design.decimation);
        EXPECT_EQ(std::isfinite(y[1][at]), step < 5000 || step >= 5700) << design.text() << ", step " << step;
      }
      ASSERT_NO_FATAL_FAILURE(expect_filtered(y[0], x, attempt, design));
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
    expect_refused("fir",
                   settings_of({{"taps", row.taps}, {"taps_imag", row.taps_imag}, {"decimation", row.decimation}}),
                   {row.input}, row.field, row.message);
  }
}

TEST(Fir, RefusesToDoWithoutTaps) {
  expect_refused("fir", {}, {{.type = element_type::f32, .shape = {8}}}, "taps", "missing");
}

TEST(Fir, SaysHowManyStepsAFrameCanGive) {
  session_case setup{.op = "fir", .settings = {}, .input = {element_type::f32, {100, 3}, true}};
  setup.settings.set("taps", std::vector<double>{1.0, 2.0});
  setup.settings.set("decimation", std::int64_t{8});
  EXPECT_EQ(setup.output(), (tensor_spec{element_type::f32, {13, 3}, true}));
  EXPECT_EQ(setup.traits().rate, (step_rate{8, 7}));
  EXPECT_FALSE(setup.traits().whole_frames);
  setup.settings.set("taps_imag", std::vector<double>{0.0, 1.0});
  setup.input = {element_type::f32, {96, 3}};
  EXPECT_EQ(setup.output(), (tensor_spec{element_type::cf32, {12, 3}}));
}

/// Each output is within 1e-6 of the largest value in the span that it sees, and not finite only where that holds such.
void expect_by_own_span(const std::vector<float>& got, const std::vector<float>& x, const std::vector<double>& h,
                        std::size_t every, std::size_t parts, const std::string& setup) {
  const std::size_t steps = x.size() / parts;
  ASSERT_EQ(got.size(), (steps + every - 1) / every * parts) << setup;
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
        ASSERT_FALSE(std::isfinite(y)) << setup << ", output at step " << at;
      } else {
        ASSERT_LE(std::abs(y - sum), 1e-6 * peak + static_cast<double>(std::numeric_limits<float>::min()))
            << setup << ", output at step " << at << ": " << y << ", not " << sum << " of a peak of " << peak;
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
          session_case setup{
              .op = "fir",
              .settings = {},
              .input = {.type = complex ? element_type::cf32 : element_type::f32, .shape = {4096}, .variable = true}};
          const std::vector<double> h = low_pass(taps);
          setup.settings.set("taps", h);
          setup.settings.set("method", std::string{method});
          setup.settings.set("decimation", decimation);
          setup.seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30));
          const std::size_t parts = complex ? 2 : 1;
          std::vector<std::vector<float>> signals{wide_range_noise(random_, 6000 * parts),
                                                  wide_range_noise(random_, 3000 * parts)};
          for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            for (std::size_t part = 0; part < parts; ++part) {
              signals[1][static_cast<std::size_t>(random_.integer(0, 2999)) * parts + part] = broken;
            }
          }
          const auto got = run<float>(setup, signals);
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
    session_case setup{
        .op = "fir", .settings = {}, .input = {.type = element_type::f32, .shape = {4096}, .variable = true}};
    setup.settings.set("taps", low_pass(2000));
    std::vector<float> x(4096);
    x[3000] = height;
    const auto y = run<float>(setup, std::vector<std::vector<float>>{x})[0];
    const std::vector<float> before(y.begin(), y.begin() + 3000);
    EXPECT_EQ(before, std::vector<float>(3000)) << height;
    EXPECT_NEAR(y[4000] / height, low_pass(2000)[1000], 1e-6) << height;
  }
}

}  // namespace
}  // namespace penstock
