#include "kernels/stft.hpp"

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

/// A transform, or its inverse.
struct design {
  std::int64_t length = 1;
  std::int64_t hop = 1;
  std::int64_t padding = 0;
  std::int64_t window_length = 0;  ///< 0: length
  std::int64_t channels = 1;
  bool complex = false;
  std::string window = "hann";

  [[nodiscard]] std::string text() const {
    return "length " + std::to_string(length) + ", hop " + std::to_string(hop) + ", padding " +
           std::to_string(padding) + ", " + window + " of " + std::to_string(window_length) + ", " +
           std::to_string(channels) + (complex ? " complex" : " real") + " channels";
  }
  [[nodiscard]] std::int64_t bins() const { return complex ? length : length / 2 + 1; }
  [[nodiscard]] std::int64_t parts() const { return complex ? 2 : 1; }

  [[nodiscard]] parameters settings() const {
    parameters made = settings_of({{"length", length}, {"hop", hop}, {"window", window}});
    if (padding != 0) {
      made.set("padding", padding);
    }
    if (window_length != 0) {
      made.set("window_length", window_length);
    }
    return made;
  }
  /// In the middle of `length` values, as torch.stft and librosa.stft place a shorter window.
  [[nodiscard]] std::vector<double> weights() const {
    const std::int64_t own = window_length == 0 ? length : window_length;
    std::vector<double> all(static_cast<std::size_t>(length));
    for (std::int64_t i = 0; i < own; ++i) {
      const double t = 2.0 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(own);
      all[static_cast<std::size_t>((length - own) / 2 + i)] = window == "hann"      ? 0.5 - 0.5 * std::cos(t)
                                                              : window == "hamming" ? 0.54 - 0.46 * std::cos(t)
                                                                                    : 1.0;
    }
    return all;
  }
};

/// A result.
struct exact {
  sample value;
  double bound = 0;  ///< of its error; infinite where something that it sees is not finite
  double reach = 0;  ///< of partial sums of its transform
};

double bound_of(double peak, double factor) {
  return std::isfinite(peak) ? 1e-6 * factor * peak : std::numeric_limits<double>::infinity();
}

/// torch.stft(x, pad_mode = "constant") in float64 over the whole signal, term by term: rows, channels, bins. Only the
/// rows whose steps have all come.
std::vector<exact> transformed(const std::vector<float>& x, const design& shape) {
  const std::vector<double> w = shape.weights();
  const double sum = std::accumulate(w.begin(), w.end(), 0.0);
  const std::int64_t width = shape.channels * shape.parts();
  const std::int64_t steps = static_cast<std::int64_t>(x.size()) / width;
  std::vector<sample> turns;
  for (std::int64_t i = 0; i < shape.length; ++i) {
    turns.push_back(
        std::polar(1.0, -2.0 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(shape.length)));
  }
  std::vector<exact> rows;
  for (std::int64_t first = -shape.padding; first + shape.length <= steps; first += shape.hop) {
    for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
      std::vector<sample> row(static_cast<std::size_t>(shape.length));
      double peak = 0;
      for (std::int64_t i = std::max<std::int64_t>(0, -first); i < shape.length; ++i) {
        const float* const at = x.data() + (first + i) * width + channel * shape.parts();
        const sample value{at[0], shape.complex ? at[1] : 0.0F};
        const bool finite = std::isfinite(value.real()) && std::isfinite(value.imag());
        peak = std::max(peak, finite ? std::abs(value) : std::numeric_limits<double>::infinity());
        row[static_cast<std::size_t>(i)] = w[static_cast<std::size_t>(i)] * value;
      }
      for (std::int64_t bin = 0; bin < shape.bins(); ++bin) {
        exact made{.value = 0, .bound = bound_of(peak, sum), .reach = sum * peak};
        for (std::int64_t i = 0; i < shape.length && std::isfinite(peak); ++i) {
          made.value += row[static_cast<std::size_t>(i)] * turns[static_cast<std::size_t>(i * bin % shape.length)];
        }
        rows.push_back(made);
      }
    }
  }
  return rows;
}

/// torch.istft in float64 over all rows: the results that no later row would change, steps and channels.
std::vector<exact> inverted(const std::vector<float>& spectra, const design& shape) {
  const std::vector<double> w = shape.weights();
  const std::int64_t row_floats = shape.channels * shape.bins() * 2;
  const std::int64_t rows = static_cast<std::int64_t>(spectra.size()) / row_floats;
  const std::int64_t total = rows * shape.hop + shape.length;
  const auto place = [&](std::int64_t t, std::int64_t channel) {
    return static_cast<std::size_t>(t * shape.channels + channel);
  };
  std::vector<sample> sums(place(total, 0));
  std::vector<double> peaks(place(total, 0));
  std::vector<double> reaches(place(total, 0));
  std::vector<double> squares(static_cast<std::size_t>(total));
  std::vector<double> absolute(static_cast<std::size_t>(total));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < shape.length; ++i) {
      const double weight = w[static_cast<std::size_t>(i)];
      squares[static_cast<std::size_t>(row * shape.hop + i)] += weight * weight;
      absolute[static_cast<std::size_t>(row * shape.hop + i)] += weight;
    }
    for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
      std::vector<sample> y(static_cast<std::size_t>(shape.length));
      double peak = 0;
      double reach = 0;
      for (std::int64_t i = 0; i < shape.length; ++i) {
        for (std::int64_t k = 0; k < shape.length; ++k) {
          const bool mirrors = k >= shape.bins();
          const float* const at =
              spectra.data() + row * row_floats + (channel * shape.bins() + (mirrors ? shape.length - k : k)) * 2;
          const bool is_real = !shape.complex && (k == 0 || 2 * k == shape.length);
          const sample value{at[0], is_real ? 0.0 : mirrors ? -static_cast<double>(at[1]) : static_cast<double>(at[1])};
          reach += 2.0 / static_cast<double>(shape.length) * std::abs(value);  // each bin comes `length` times
          const double turn = static_cast<double>(i * k % shape.length) / static_cast<double>(shape.length);
          y[static_cast<std::size_t>(i)] +=
              value * std::polar(1.0 / static_cast<double>(shape.length), 2.0 * std::numbers::pi * turn);
        }
        const double size = std::abs(y[static_cast<std::size_t>(i)]);
        peak = std::isfinite(size) ? std::max(peak, size) : std::numeric_limits<double>::infinity();
      }
      for (std::int64_t i = 0; i < shape.length; ++i) {
        const std::size_t at = place(row * shape.hop + i, channel);
        sums[at] += w[static_cast<std::size_t>(i)] * y[static_cast<std::size_t>(i)];
        peaks[at] = std::max(peaks[at], peak);
        reaches[at] = std::max(reaches[at], reach);
      }
    }
  }
  std::vector<exact> results;
  for (std::int64_t t = shape.padding; t < rows * shape.hop; ++t) {
    const double square = squares[static_cast<std::size_t>(t)];
    const double factor = square >= 1e-11 ? 1.0 / square : 0.0;
    for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
      const double peak = peaks[place(t, channel)];
      results.push_back({.value = std::isfinite(peak) ? factor * sums[place(t, channel)] : 0.0,
                         .bound = bound_of(peak, factor * absolute[static_cast<std::size_t>(t)]),
                         .reach = reaches[place(t, channel)]});
    }
  }
  return results;
}

class stft_operation : public session_test {
 protected:
  session_case forward(const design& shape, std::int64_t longest, bool variable = true) {
    return cut({.op = "stft",
                .settings = shape.settings(),
                .input = {.type = shape.complex ? element_type::cf32 : element_type::f32,
                          .shape = {longest, shape.channels},
                          .variable = variable}});
  }
  session_case inverse(const design& shape, std::int64_t longest, bool variable = true) {
    session_case made =
        cut({.op = "istft",
             .settings = shape.settings(),
             .input = {
                 .type = element_type::cf32, .shape = {longest, shape.channels, shape.bins()}, .variable = variable}});
    made.settings.set("half", !shape.complex);
    return made;
  }
  std::vector<float> signal(const design& shape, std::int64_t steps) {
    return random_.normal(static_cast<std::size_t>(steps * shape.channels * shape.parts()));
  }
  std::vector<float> spectra(const design& shape, std::int64_t rows) {
    return random_.normal(static_cast<std::size_t>(rows * shape.channels * shape.bins() * 2));
  }

  /// Where partial sums may leave the range of f32, a result may be infinite or NaN.
  /// `earlier`: results of as many zeros before each signal are left out.
  void expect(const session_case& setup, const design& shape, const session_signals& signals,
              std::int64_t earlier = 0) {
    const bool is_inverse = setup.op == "istft";
    const bool complex_output = !is_inverse || shape.complex;
    const auto got = run<float>(setup, signals);
    for (std::size_t session = 0; session < signals.size(); ++session) {
      std::vector<float> whole(static_cast<std::size_t>(earlier) * setup.input_step_bytes() / sizeof(float));
      whole.insert(whole.end(), signals[session].begin(), signals[session].end());
      std::vector<exact> expected = is_inverse ? inverted(whole, shape) : transformed(whole, shape);
      const std::size_t per_step = setup.output_step_bytes() / sizeof(float) / (complex_output ? 2 : 1);
      const auto left_out = static_cast<std::size_t>(setup.traits().rate.total(earlier)) * per_step;
      expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(left_out));
      const std::vector<float>& y = got[session];
      ASSERT_EQ(y.size(), expected.size() * (complex_output ? 2 : 1)) << shape.text() << setup.text();
      for (std::size_t at = 0; at < expected.size(); ++at) {
        const sample value{y[complex_output ? 2 * at : at], complex_output ? y[2 * at + 1] : 0.0F};
        const bool finite = std::isfinite(value.real()) && std::isfinite(value.imag());
        if (std::isinf(expected[at].bound)) {
          ASSERT_FALSE(finite) << shape.text() << ", " << at;
        } else if (finite || expected[at].reach <= static_cast<double>(std::numeric_limits<float>::max())) {
          ASSERT_LE(std::abs(value - expected[at].value), expected[at].bound + 1e-30)
              << shape.text() << ", " << setup.text() << ", session " << session << ", result " << at << " of "
              << expected.size();
        }
      }
    }
  }

  random_input random_;

 private:
  session_case cut(session_case made) {
    made.seed = static_cast<std::uint64_t>(random_.integer(0, 1 << 30));
    made.least_steps = random_.integer(0, 1);
    return made;
  }
};
PENSTOCK_ON_EACH_BACKEND(stft_operation);

const std::vector<design>& designs() {
  static const std::vector<design> all{
      {16, 4},
      {16, 4, 8},
      {16, 16, 0, 0, 1, false, "hamming"},
      {16, 5, 15, 11},
      {15, 4, 7, 0, 2},
      {31, 7, 0, 0, 1, true, "hamming"},
      {24, 6, 12, 17, 3, true},
      {32, 8, 16, 0, 64},
      {1, 1, 0, 0, 2, false, "rectangular"},
      {2, 1, 1, 0, 1, true, "rectangular"},
      {13, 1, 3, 0, 1, false, "hamming"},
  };
  return all;
}

TEST_P(stft_operation, GivesWhatTheWholeSignalGivesHoweverItIsCut) {
  SCOPED_TRACE(random_.trace());
  for (const design& shape : designs()) {
    const session_case setup = forward(shape, random_.coin() ? 20 : 120);
    ASSERT_NO_FATAL_FAILURE(
        expect(setup, shape,
               {signal(shape, 1), signal(shape, random_.integer(2, 60)), signal(shape, random_.integer(100, 300))}));
  }
}

TEST_P(stft_operation, LeavesStepsOutWhereTheHopIsLonger) {
  SCOPED_TRACE(random_.trace());
  const design shape{8, 21, 0, 0, 2};
  expect(forward(shape, 30), shape, {signal(shape, 400), signal(shape, 22)});
}

TEST_P(stft_operation, InvertsAllRowsHoweverTheyAreCut) {
  SCOPED_TRACE(random_.trace());
  for (const design& shape : designs()) {
    const session_case setup = inverse(shape, random_.coin() ? 3 : 12);
    ASSERT_NO_FATAL_FAILURE(
        expect(setup, shape,
               {spectra(shape, 1), spectra(shape, random_.integer(2, 9)), spectra(shape, random_.integer(9, 30))}));
  }
}

TEST_P(stft_operation, TakesFixedFrames) {
  SCOPED_TRACE(random_.trace());
  const design shape{16, 4, 12, 0, 2};
  const session_case setup = forward(shape, 20, false);
  EXPECT_EQ(setup.output(), (tensor_spec{element_type::cf32, {5, 2, 9}}));
  ASSERT_NO_FATAL_FAILURE(expect(setup, shape, {signal(shape, 20 * 9), signal(shape, 20)}));
  const design back{16, 4, 0, 0, 2};
  const session_case inverted = inverse(back, 5, false);
  EXPECT_EQ(inverted.output(), (tensor_spec{element_type::f32, {20, 2}}));
  expect(inverted, back, {spectra(back, 5 * 9), spectra(back, 5)});
}

TEST_P(stft_operation, GoesOnBehindBillionsOfSteps) {
  SCOPED_TRACE(random_.trace());
  for (const design& shape : {design{16, 5, 7}, design{15, 4, 0, 0, 2, true, "hamming"}}) {
    for (const std::int64_t earlier : {(std::int64_t{1} << 32U) + 7, (std::int64_t{1} << 45U) + 9}) {
      session_case setup = forward(shape, 60);
      setup.age = earlier / shape.hop * shape.hop;
      ASSERT_NO_FATAL_FAILURE(expect(setup, shape, {signal(shape, 200)}, 10 * shape.hop));
      setup = inverse(shape, 6);
      setup.age = earlier;
      ASSERT_NO_FATAL_FAILURE(expect(setup, shape, {spectra(shape, 20)}, 10));
    }
  }
}

TEST_P(stft_operation, GivesEachResultByItsOwnRowsWhateverElseTheSignalHolds) {
  SCOPED_TRACE(random_.trace());
  for (const design& shape : {design{16, 4, 8}, design{15, 5, 0, 0, 2, true, "hamming"}}) {
    std::vector<float> x = signal(shape, 600);
    x[x.size() / 2] = std::numeric_limits<float>::quiet_NaN();
    x[x.size() / 4] = std::numeric_limits<float>::infinity();
    x[x.size() / 3] = 1e20F;
    x[x.size() / 5] = 3e37F;
    x[x.size() / 8] = 3e38F;
    ASSERT_NO_FATAL_FAILURE(expect(forward(shape, 70), shape, {x}));
    std::vector<float> rows = spectra(shape, 60);
    // Of one part alone, results at which its wave is 0 need not know.
    rows[rows.size() / 2 + 4] = rows[rows.size() / 2 + 5] = std::numeric_limits<float>::quiet_NaN();
    rows[rows.size() / 3 + 4] = 1e20F;
    rows[rows.size() / 5 + 4] = 3e37F;
    rows[rows.size() / 10 + 4] = 3e38F;
    ASSERT_NO_FATAL_FAILURE(expect(inverse(shape, 9), shape, {rows}));
  }
}

TEST(Stft, GivesBackWhatItTook) {
  const tensor_spec input{element_type::f32, {4096, 2}, true};
  const session_case setup{.op = "stft",
                           .settings = settings_of({{"length", std::int64_t{512}}, {"padding", std::int64_t{256}}}),
                           .input = input};
  EXPECT_EQ(setup.output(), (tensor_spec{element_type::cf32, {32, 2, 257}, true})) << "a hop of a quarter";
  const session_case back{
      .op = "istft", .settings = settings_of({{"padding", std::int64_t{256}}}), .input = setup.output()};
  EXPECT_EQ(back.output(), input);
  const step_timing timing = step_timing{}.then(setup.traits()).then(back.traits());
  EXPECT_EQ(timing.extent, time_extent{});
  EXPECT_EQ(timing.next(0), 0);
  EXPECT_EQ(timing.next(256), 0) << "the first row is complete";
  EXPECT_EQ(timing.next(512), 128 * 3 - 256);
  EXPECT_EQ(timing.next(1'000'000), (1'000'000 - 256) / 128 * 128 + 128 - 256);
}

TEST(Stft, RefusesWhatItCannotDo) {
  const tensor_spec fixed{.type = element_type::f32, .shape = {100}};
  const tensor_spec bins{.type = element_type::cf32, .shape = {10, 9}};
  const auto of = [](std::int64_t length, std::int64_t hop) { return settings_of({{"length", length}, {"hop", hop}}); };
  expect_refused("stft", {}, {fixed}, "length", "missing");
  expect_refused("stft", of(16, 7), {fixed}, "hop", "must divide the 100 steps");
  expect_refused("stft", of(16, 4), {fixed}, "padding", "must be at least 'length' - 'hop', 12");
  expect_refused("stft", of(16, 4), {{.type = element_type::i16, .shape = {100}}}, "from", "not i16[100]");
  parameters wide = of(16, 4);
  wide.set("window_length", std::int64_t{17});
  expect_refused("stft", wide, {fixed}, "window_length", "from 1 to 16, not 17");
  expect_refused("istft", {}, {{.type = element_type::cf32, .shape = {9}}}, "from", "rows of bins");
  expect_refused("istft", of(18, 4), {bins}, "length", "of 18 has 10 bins");
  expect_refused("istft", of(16, 17), {bins}, "hop", "at most 'length', 16, not 17");
  expect_refused("istft", of(16, 16), {bins}, "hop", "no window reaches");
  expect_refused("istft", settings_of({{"padding", std::int64_t{8}}}), {bins}, "padding", "must be 0");
}

}  // namespace
}  // namespace penstock
