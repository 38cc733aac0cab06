#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class fourier_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(fourier_operation);

using signal = std::vector<std::complex<double>>;

/// The definition, term by term, in float64; sign −1 is forward.
signal transform_of(const signal& x, double sign, double factor) {
  const std::size_t length = x.size();
  signal turns(length);
  for (std::size_t i = 0; i < length; ++i) {
    turns[i] = std::polar(1.0, sign * 2.0 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length));
  }
  signal y(length);
  for (std::size_t k = 0; k < length; ++k) {
    for (std::size_t i = 0; i < length; ++i) {
      y[k] += x[i] * turns[i * k % length];
    }
    y[k] *= factor;
  }
  return y;
}

/// numpy.fft.fftshift for N/2 rounded down, ifftshift for the rest of N.
signal rolled(const signal& x, std::size_t by) {
  signal y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[(i + by) % x.size()] = x[i];
  }
  return y;
}

double factor_of(const std::string& norm, bool inverse, std::size_t length) {
  const auto n = static_cast<double>(length);
  return norm == "ortho" ? 1.0 / std::sqrt(n) : norm == (inverse ? "backward" : "forward") ? 1.0 / n : 1.0;
}

struct transform_case {
  bool inverse = false;
  bool complex_input = true;
  bool half = false;
  bool shift = false;
  std::string norm = "backward";
  std::size_t length = 0;  ///< N
  std::size_t bins = 0;    ///< of the input of an inverse of half a spectrum

  [[nodiscard]] std::size_t row() const { return inverse && half ? bins : length; }
  [[nodiscard]] bool real_output() const { return inverse && half; }
  [[nodiscard]] operation_case setup(const std::vector<std::int64_t>& outer) const {
    operation_case made{.op = inverse ? "ifft" : "fft",
                        .settings = {},
                        .input = {.type = complex_input ? element_type::cf32 : element_type::f32, .shape = outer}};
    made.input.shape.push_back(static_cast<std::int64_t>(row()));
    made.settings.set("shift", shift);
    made.settings.set("norm", norm);
    made.settings.set("half", half);
    if (real_output()) {
      made.settings.set("length", static_cast<std::int64_t>(length));
    }
    return made;
  }
  [[nodiscard]] signal expected(signal x) const {
    const double factor = factor_of(norm, inverse, length);
    if (inverse && half) {
      x.resize(length / 2 + 1);
      x[0] = x[0].real();
      if (length % 2 == 0) {
        x[length / 2] = x[length / 2].real();
      }
      x.resize(length);
      for (std::size_t k = length / 2 + 1; k < length; ++k) {
        x[k] = std::conj(x[length - k]);
      }
    } else if (inverse && shift) {
      x = rolled(x, length - length / 2);
    }
    signal y = transform_of(x, inverse ? 1.0 : -1.0, factor);
    if (!inverse && half) {
      y.resize(length / 2 + 1);
    } else if (!inverse && shift) {
      y = rolled(y, length / 2);
    }
    return y;
  }
};

transform_case random_transform(random_input& random, std::int64_t longest) {
  transform_case made;
  made.inverse = random.coin();
  made.complex_input = made.inverse || random.coin();
  made.half = (made.inverse || !made.complex_input) && random.coin();
  made.shift = !made.half && random.coin();
  made.norm = std::vector<std::string>{"backward", "ortho", "forward"}[static_cast<std::size_t>(random.integer(0, 2))];
  made.length = static_cast<std::size_t>(random.integer(1, longest));
  made.bins = random.coin() ? made.length / 2 + 1 : static_cast<std::size_t>(random.integer(1, longest));
  return made;
}

class fourier_check {
 public:
  fourier_check(const transform_case& given, const std::vector<float>& x, const std::vector<float>& y)
      : given_{given}, x_{x}, y_{y} {}

  void expect_each_row(const std::string& where) const {
    const std::size_t parts = given_.complex_input ? 2 : 1;
    const std::size_t results = given_.real_output() ? 1 : 2;
    const std::size_t rows = x_.size() / (given_.row() * parts);
    for (std::size_t row = 0; row < rows; ++row) {
      signal in(given_.row());
      for (std::size_t i = 0; i < in.size(); ++i) {
        const float* const at = &x_[(row * in.size() + i) * parts];
        in[i] = {at[0], parts == 2 ? at[1] : 0.0F};
      }
      const signal expected = given_.expected(in);
      ASSERT_EQ(y_.size(), rows * expected.size() * results) << where;
      double peak = 0.0;
      for (const std::complex<double>& each : expected) {
        peak = std::max(peak, std::abs(each));
      }
      for (std::size_t k = 0; k < expected.size(); ++k) {
        const float* const at = &y_[(row * expected.size() + k) * results];
        ASSERT_NEAR(at[0], expected[k].real(), 1e-5 * peak) << where << " row " << row << " at " << k;
        if (results == 2) {
          ASSERT_NEAR(at[1], expected[k].imag(), 1e-5 * peak) << where << " row " << row << " at " << k;
        }
      }
    }
  }

 private:
  const transform_case& given_;
  const std::vector<float>& x_;
  const std::vector<float>& y_;
};

TEST_P(fourier_operation, MatchesTheDefinitionForAnyLength) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 120; ++round) {
    const transform_case given = random_transform(random, 70);
    operation_case setup =
        given.setup(random.coin() ? std::vector<std::int64_t>{random.integer(1, 4)} : std::vector<std::int64_t>{});
    setup.input.variable = setup.input.shape.size() > 1 && random.coin();
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    const auto x = random.normal(values_in(setup.input, setup.extent), 0.1, std::pow(10.0, random.real(-9.0, 9.0)));
    fourier_check(given, x, run<float>(setup, x)).expect_each_row(setup.text() + ", norm " + given.norm);
  }
}

TEST_P(fourier_operation, MatchesTheDefinitionForLongRows) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::size_t length : {std::size_t{1000}, std::size_t{1024}, std::size_t{1021}, std::size_t{2018}}) {
    for (int round = 0; round < 4; ++round) {
      transform_case given = random_transform(random, 1);
      given.length = length;
      given.bins = length / 2 + 1;
      const operation_case setup = given.setup({});
      const auto x = random.normal(values_in(setup.input, setup.extent));
      fourier_check(given, x, run<float>(setup, x)).expect_each_row(setup.text());
    }
  }
}

// At some bins: the definition of all would take hours.
TEST_P(fourier_operation, MatchesTheDefinitionForRowsLongerThanACache) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::size_t length : {std::size_t{1} << 19, std::size_t{600'000}, std::size_t{524'309}}) {
    for (const bool inverse : {false, true}) {
      operation_case setup{.op = inverse ? "ifft" : "fft",
                           .settings = {},
                           .input = {.type = element_type::cf32, .shape = {static_cast<std::int64_t>(length)}}};
      setup.settings.set("norm", inverse ? "forward" : "backward");
      setup.settings.set("shift", true);
      const auto x = random.normal(values_in(setup.input, setup.extent));
      const auto y = run<float>(setup, x);
      const double level = std::sqrt(2.0 * static_cast<double>(length));  // of bins of noise
      for (int bin = 0; bin < 8; ++bin) {
        const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(length) - 1));
        // Of the shifted side.
        const std::size_t k = inverse ? at : (at + length - length / 2) % length;
        std::complex<double> expected;
        for (std::size_t i = 0; i < length; ++i) {
          const std::size_t n = inverse ? (i + length - length / 2) % length : i;
          const double turn = static_cast<double>(k * n % length) / static_cast<double>(length);
          expected += std::complex<double>(x[2 * i], x[2 * i + 1]) *
                      std::polar(1.0, (inverse ? 2.0 : -2.0) * std::numbers::pi * turn);
        }
        ASSERT_NEAR(y[2 * at], expected.real(), 1e-5 * level) << setup.text() << " at " << at;
        ASSERT_NEAR(y[2 * at + 1], expected.imag(), 1e-5 * level) << setup.text() << " at " << at;
      }
    }
  }
}

TEST_P(fourier_operation, GivesTheSamplesBackThatItTransformed) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const bool real : {false, true}) {
    for (const std::int64_t length : {1, 2, 17, 100'003, 1 << 17, 1 << 19}) {
      operation_case there{.op = "fft",
                           .settings = {},
                           .input = {.type = real ? element_type::f32 : element_type::cf32, .shape = {length}}};
      there.extent.frames = 3;
      const auto x = random.normal(values_in(there.input, there.extent));
      operation_case back{.op = "ifft", .settings = {}, .input = there.output(), .extent = there.extent};
      if (real) {
        back.settings.set("half", true);
        back.settings.set("length", length);
      }
      const auto y = run<float>(back, run<float>(there, x));
      ASSERT_EQ(y.size(), x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(y[i], x[i], 1e-5) << there.text() << " at " << i;
      }
    }
  }
}

// Frames of one batch come from different clients.
TEST_P(fourier_operation, KeepsNanAndFarLouderRowsApart) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::size_t length : {2U, 3U, 16U, 31U, 77U, 202U, 1021U, 1024U}) {
    for (const bool inverse : {false, true}) {
      for (const bool real : {false, true}) {
        transform_case given{.inverse = inverse, .complex_input = inverse || !real, .half = real};
        given.length = length;
        given.bins = length / 2 + 1;
        operation_case alone = given.setup({});
        const auto quiet = random.normal(values_in(alone.input, alone.extent));
        const auto expected = run<float>(alone, quiet);
        std::vector<float> frames;
        for (const float loudness : {1.0F, std::numeric_limits<float>::quiet_NaN(), 1.0F, 1e20F, 1.0F}) {
          std::transform(quiet.begin(), quiet.end(), std::back_inserter(frames),
                         [=](float value) { return value * loudness; });
        }
        operation_case together = given.setup({});
        together.extent.frames = 5;
        const auto got = run<float>(together, frames);
        const float peak = std::abs(*std::max_element(expected.begin(), expected.end(),
                                                      [](float a, float b) { return std::abs(a) < std::abs(b); }));
        for (const std::size_t frame : {0U, 2U, 4U}) {
          for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_NEAR(got[frame * expected.size() + i], expected[i], 1e-5F * peak) << together.text() << " at " << i;
          }
        }
        EXPECT_TRUE(std::none_of(got.begin() + static_cast<std::ptrdiff_t>(expected.size()),
                                 got.begin() + static_cast<std::ptrdiff_t>(2 * expected.size()),
                                 [](float value) { return std::isfinite(value) && value != 0.0F; }))
            << together.text();
      }
    }
  }
}

TEST(Fourier, HasHalfOfTheSpectrumOfRealInputByDefault) {
  const auto output = [](const char* op, const entries& settings, element_type type, std::int64_t length) {
    const tensor_spec input{.type = type, .shape = {4, length}, .variable = true};
    const tensor_spec made = find_operator(op)->infer(settings_of(settings), std::span(&input, 1));
    EXPECT_TRUE(made.variable);
    return std::pair(made.type, made.shape.back());
  };
  using enum element_type;
  EXPECT_EQ(output("fft", {}, f32, 9), std::pair(cf32, std::int64_t{5}));
  EXPECT_EQ(output("fft", {{"half", false}}, f32, 9), std::pair(cf32, std::int64_t{9}));
  EXPECT_EQ(output("fft", {{"shift", true}}, f32, 9), std::pair(cf32, std::int64_t{9}));
  EXPECT_EQ(output("fft", {}, cf32, 9), std::pair(cf32, std::int64_t{9}));
  EXPECT_EQ(output("ifft", {}, cf32, 9), std::pair(cf32, std::int64_t{9}));
  EXPECT_EQ(output("ifft", {{"half", true}}, cf32, 9), std::pair(f32, std::int64_t{16}));
  EXPECT_EQ(output("ifft", {{"half", true}, {"length", std::int64_t{17}}}, cf32, 9), std::pair(f32, std::int64_t{17}));
  constexpr std::int64_t large = (std::int64_t{1} << 24) + 1;
  EXPECT_EQ(output("ifft", {{"half", true}}, cf32, large), std::pair(f32, 2 * (large - 1))) << "as its input is";
}

TEST(Fourier, RefusesWhatDoesNotGoTogether) {
  using enum element_type;
  const std::vector<tensor_spec> real{{f32, {8}}};
  const std::vector<tensor_spec> complex{{cf32, {8}}};
  expect_refused("fft", {}, {{i16, {8}}}, "from", "takes f32 or cf32, not i16[8]");
  expect_refused("ifft", {}, real, "from", "takes cf32, not f32[8]");
  expect_refused("fft", {}, {{f32, {8}, true}}, "from", "fixed");
  expect_refused("fft", settings_of({{"half", true}}), complex, "half", "f32 input, not for cf32[8]");
  expect_refused("fft", settings_of({{"half", true}, {"shift", true}}), real, "shift", "not with 'half'");
  expect_refused("ifft", settings_of({{"half", true}, {"shift", true}}), complex, "shift", "not with 'half'");
  expect_refused("fft", settings_of({{"norm", std::string{"unit"}}}), real, "norm", "\"ortho\" or \"forward\"");
  expect_refused("ifft", settings_of({{"length", std::int64_t{8}}}), complex, "length", "half = true");
  expect_refused("ifft", settings_of({{"half", true}, {"length", std::int64_t{0}}}), complex, "length", "from 1");
  expect_refused("ifft", settings_of({{"half", true}, {"length", (std::int64_t{1} << 24) + 1}}), complex, "length",
                 "from 1 to 16777216");
  expect_refused("ifft", settings_of({{"half", true}}), {{cf32, {1}}}, "length", "is missing");
}

}  // namespace
}  // namespace penstock
