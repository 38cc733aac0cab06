// What a library's numbers are held against, and how an operator's work is put into its terms.

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/operators/agreement.hpp"
#include "tests/bench/operators/toeplitz.hpp"
#include "tests/bench/operators/windowed_powers.hpp"

namespace penstock::bench {
namespace {

using numbers = std::vector<float>;
using ::testing::ElementsAre;

numbers noise(std::size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> draw(0.0F, 0.3F);
  numbers made(count);
  for (float& each : made) {
    each = draw(random);
  }
  return made;
}

TEST(Agreement, IsRelativeToTheLargestNumber) {
  EXPECT_DOUBLE_EQ(difference_of({1, 2, -3}, {1, 2, -4}), 0.25);
  EXPECT_EQ(difference_of({1, 2}, {1, 2}), 0);
}

TEST(Agreement, IsNoneWithoutAsManyFiniteNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(difference_of({1}, {1, 2})));
  EXPECT_TRUE(std::isinf(difference_of({1, nan}, {1, nan})));
  EXPECT_TRUE(std::isinf(difference_of({}, {})));
  EXPECT_TRUE(std::isinf(difference_of({0, 0}, {0, 0})));
}

TEST(Agreement, TakesSomeNumbersOfMany) {
  EXPECT_THAT(taken_from({0, 1, 2, 3, 4, 5, 6}, 1, 3, 2), ElementsAre(2, 8));
}

// Column by column, as the matrices are: the products that a library is asked for, one after the other.
numbers filtered_by(const toeplitz& matrices, const numbers& x) {
  const auto size = static_cast<std::size_t>(matrices.size);
  numbers y(x.size());
  for (std::size_t at = 0; at < x.size(); ++at) {
    const std::size_t begin = at / size * size;
    for (std::size_t k = 0; k < size; ++k) {
      y[at] += matrices.own[k * size + at - begin] * x[begin + k];
      y[at] += begin == 0 ? 0 : matrices.before[k * size + at - begin] * x[begin - size + k];
    }
  }
  return y;
}

TEST(Toeplitz, FiltersAsTheSumDoes) {
  for (const std::size_t count : {1U, 5U, 8U}) {
    const numbers taps = noise(count);
    const numbers x = noise(32);
    numbers expected(x.size());
    for (std::size_t m = 0; m < x.size(); ++m) {
      for (std::size_t k = 0; k < std::min(count, m + 1); ++k) {
        expected[m] += taps[k] * x[m - k];
      }
    }
    EXPECT_LT(difference_of(filtered_by(toeplitz_of(taps, 8), x), expected), 1e-6) << count;
  }
}

TEST(Toeplitz, IsAsLargeAsTheTapsNeed) {
  EXPECT_EQ(toeplitz_size(16), 64);
  EXPECT_EQ(toeplitz_size(128), 128);
  EXPECT_EQ(toeplitz_size(129), 256);
}

/// (re, im) pairs of the first `bins`, by the definition; of real samples, or of such pairs.
numbers transform_of(const numbers& samples, std::size_t length, bool complex, std::size_t bins, bool weighted) {
  numbers made;
  for (std::size_t bin = 0; bin < bins; ++bin) {
    std::complex<double> sum = 0;
    for (std::size_t i = 0; i < length; ++i) {
      const double turn = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length);
      const std::complex<double> x(complex ? samples[2 * i] : samples[i], complex ? samples[2 * i + 1] : 0);
      sum += x * std::polar(weighted ? 0.5 - 0.5 * std::cos(turn) : 1, -turn * static_cast<double>(bin));
    }
    made.push_back(static_cast<float>(sum.real()));
    made.push_back(static_cast<float>(sum.imag()));
  }
  return made;
}

TEST(WindowedPowers, AreThoseOfWeighedSamples) {
  constexpr std::size_t length = 16;
  for (const bool complex : {false, true}) {
    const std::size_t bins = complex ? length : length / 2 + 1;
    const numbers first = noise(length * 2);
    const numbers second(first.rbegin(), first.rend());
    numbers spectra;
    numbers expected;
    for (const numbers& row : {first, second}) {
      const numbers bare = transform_of(row, length, complex, bins, false);
      spectra.insert(spectra.end(), bare.begin(), bare.end());
      const numbers weighed = transform_of(row, length, complex, bins, true);
      for (std::size_t bin = 0; bin < bins; ++bin) {
        expected.push_back(weighed[2 * bin] * weighed[2 * bin] + weighed[2 * bin + 1] * weighed[2 * bin + 1]);
      }
    }
    EXPECT_LT(difference_of(hann_powers(spectra, length, complex), expected), 1e-5) << complex;
  }
}

TEST(WindowedPowers, AreWhatDecibelsSay) {
  EXPECT_LT(difference_of(powers_of_decibels({0, -10, 20}, 8), {16, 1.6F, 1600}), 1e-6);
}

}  // namespace
}  // namespace penstock::bench
