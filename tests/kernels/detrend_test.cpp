#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class detrend_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(detrend_operation);

/// One part of one row, by the normal equations over [1, n] in extended precision.
std::vector<double> without_trend(const float* row, std::size_t length, std::size_t stride, bool linear) {
  const auto count = static_cast<long double>(length);
  long double sum = 0.0L;
  for (std::size_t n = 0; n < length; ++n) {
    sum += row[n * stride];
  }
  const long double mean = sum / count;
  const long double centre = (count - 1.0L) / 2.0L;
  long double product = 0.0L;
  long double spread = 0.0L;
  for (std::size_t n = 0; n < length; ++n) {
    const long double place = static_cast<long double>(n) - centre;
    product += place * (row[n * stride] - mean);
    spread += place * place;
  }
  const long double slope = linear && length > 1 ? product / spread : 0.0L;
  std::vector<double> rest;
  for (std::size_t n = 0; n < length; ++n) {
    rest.push_back(static_cast<double>(row[n * stride] - mean - slope * (static_cast<long double>(n) - centre)));
  }
  return rest;
}

void expect_detrended(const operation_case& setup, bool linear, const std::vector<float>& x,
                      const std::vector<float>& y) {
  const bool whole = setup.input.variable && setup.input.shape.size() == 1;
  const auto length = static_cast<std::size_t>(whole ? setup.extent.leading : setup.input.shape.back());
  const std::size_t parts = is_complex(setup.input.type) ? 2 : 1;
  ASSERT_EQ(y.size(), x.size()) << setup.text();
  for (std::size_t row = 0; length > 0 && row < x.size() / (length * parts); ++row) {
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t first = row * length * parts + part;
      const std::vector<double> expected = without_trend(&x[first], length, parts, linear);
      double peak = 1e-30;
      for (std::size_t n = 0; n < length; ++n) {
        peak = std::max(peak, std::abs(static_cast<double>(x[first + n * parts] - x[first])));
      }
      for (std::size_t n = 0; n < length; ++n) {
        ASSERT_NEAR(y[first + n * parts], expected[n], 1e-6 * peak)
            << setup.text() << (linear ? ", linear" : ", constant") << ", row " << row << ", sample " << n;
      }
    }
  }
}

operation_case detrend_of(tensor_spec input, bool linear) {
  operation_case setup{.op = "detrend", .settings = {}, .input = std::move(input)};
  setup.settings.set("type", std::string{linear ? "linear" : "constant"});
  return setup;
}

TEST_P(detrend_operation, MatchesLeastSquaresOnAnyShape) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 32; ++round) {
    const bool linear = random.coin();
    const element_type type = random.coin() ? element_type::f32 : element_type::cf32;
    operation_case setup = detrend_of(random.spec(type, 1, round < 16 ? 40 : 3000), linear);
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    const auto x = random.normal(values_in(setup.input, setup.extent), random.real(-2.0, 2.0));
    ASSERT_NO_FATAL_FAILURE(expect_detrended(setup, linear, x, run<float>(setup, x)));
  }
}

TEST_P(detrend_operation, TakesSlopesOffLongRowsFarFromZero) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const bool linear : {false, true}) {
    for (const std::int64_t length : {1, 2, 4097, 100003, 1000003}) {
      const operation_case setup = detrend_of({.type = element_type::f32, .shape = {length}}, linear);
      auto x = random.normal(static_cast<std::size_t>(length), 1e5, 1.0);
      for (std::size_t n = 0; n < x.size(); ++n) {
        x[n] += static_cast<float>(10.0 * static_cast<double>(n) / static_cast<double>(length));
      }
      ASSERT_NO_FATAL_FAILURE(expect_detrended(setup, linear, x, run<float>(setup, x)));
    }
  }
}

TEST_P(detrend_operation, SpoilsOnlyTheRowsThatAreNotFinite) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const operation_case setup = detrend_of({.type = element_type::f32, .shape = {3, 1000}}, true);
  auto x = random.normal(3000);
  x[1500] = std::numeric_limits<float>::quiet_NaN();
  x[2000] = std::numeric_limits<float>::infinity();
  const auto y = run<float>(setup, x);
  EXPECT_TRUE(std::all_of(y.begin(), y.begin() + 1000, [](float each) { return std::isfinite(each); }));
  EXPECT_TRUE(std::none_of(y.begin() + 1000, y.end(), [](float each) { return std::isfinite(each); }));
}

}  // namespace
}  // namespace penstock
