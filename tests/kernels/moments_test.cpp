#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/element_codec.hpp"
#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class moments_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(moments_operation);

constexpr std::array<const char*, 5> moment_names{"mean", "std", "min", "max", "rms"};

/// Two passes in extended precision.
std::array<double, 5> two_pass(const std::vector<double>& values) {
  const auto n = static_cast<long double>(values.size());
  long double sum = 0.0L;
  long double squares = 0.0L;
  for (const double v : values) {
    sum += v;
    squares += static_cast<long double>(v) * v;
  }
  const long double mean = sum / n;
  long double centred = 0.0L;
  for (const double v : values) {
    centred += (v - mean) * (v - mean);
  }
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {static_cast<double>(mean), static_cast<double>(std::sqrt(centred / n)), *low, *high,
          static_cast<double>(std::sqrt(squares / n))};
}

/// The rows of views that the operator looks at: the row itself, or I, Q and |z| of it.
std::vector<std::vector<double>> views_of(const float* row, std::size_t length, bool complex) {
  if (!complex) {
    return {{row, row + length}};
  }
  std::vector<std::vector<double>> views(3);
  for (std::size_t i = 0; i < length; ++i) {
    const double re = row[2 * i];
    const double im = row[2 * i + 1];
    views[0].push_back(re);
    views[1].push_back(im);
    views[2].push_back(std::hypot(re, im));
  }
  return views;
}

/// Everything within 1e-5 of what it is; the mean, which may be near zero, within 1e-5 of the rms.
void expect_moments(const float* got, const std::vector<double>& view, const std::string& where) {
  const auto expected = two_pass(view);
  for (std::size_t i = 0; i < moment_names.size(); ++i) {
    const double scale = i == 0 ? expected[4] : std::abs(expected[i]);
    ASSERT_NEAR(got[i], expected[i], 1e-5 * scale) << moment_names[i] << " of " << where;
  }
}

void expect_all_moments(const operation_case& setup, const std::vector<float>& x, const std::vector<float>& y) {
  const bool complex = is_complex(setup.input.type);
  const bool whole = setup.input.variable && setup.input.shape.size() == 1;
  const auto length = static_cast<std::size_t>(whole ? setup.extent.leading : setup.input.shape.back());
  const std::size_t step = complex ? 2 * length : length;
  const std::size_t results = complex ? 15 : 5;
  ASSERT_EQ(y.size(), x.size() / step * results) << setup.text();
  for (std::size_t row = 0; row < x.size() / step; ++row) {
    const auto views = views_of(&x[row * step], length, complex);
    for (std::size_t view = 0; view < views.size(); ++view) {
      ASSERT_NO_FATAL_FAILURE(
          expect_moments(&y[row * results + view * 5], views[view],
                         setup.text() + ", row " + std::to_string(row) + ", view " + std::to_string(view)));
    }
  }
}

TEST_P(moments_operation, MatchTwoPassesOnAnyShape) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 24; ++round) {
    const element_type type = random.coin() ? element_type::f32 : element_type::cf32;
    operation_case setup{.op = "moments", .settings = {}, .input = random.spec(type, 1, round < 12 ? 40 : 3000)};
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    const auto x = random.normal(values_in(setup.input, setup.extent), random.real(-2.0, 2.0));
    ASSERT_NO_FATAL_FAILURE(expect_all_moments(setup, x, run<float>(setup, x)));
  }
}

/// As scipy.stats.skew and kurtosis, in extended precision.
std::array<double, 2> skewness_and_kurtosis(const std::vector<double>& values) {
  const auto n = static_cast<long double>(values.size());
  long double sum = 0.0L;
  for (const double v : values) {
    sum += v;
  }
  std::array<long double, 5> powers{};
  for (const double v : values) {
    long double power = 1.0L;
    for (long double& each : powers) {
      each += power / n;
      power *= v - sum / n;
    }
  }
  return {static_cast<double>(powers[3] / std::pow(powers[2], 1.5L)),
          static_cast<double>(powers[4] / (powers[2] * powers[2]) - 3.0L)};
}

void expect_powers(const float* got, const std::vector<double>& view, const std::string& where) {
  ASSERT_NO_FATAL_FAILURE(expect_moments(got, view, where));
  const auto [skewness, kurtosis] = skewness_and_kurtosis(view);
  ASSERT_NEAR(got[5], skewness, 1e-5 * std::max(1.0, std::abs(skewness))) << where;
  ASSERT_NEAR(got[6], kurtosis, 1e-5 * std::max(3.0, std::abs(kurtosis))) << where;
}

TEST_P(moments_operation, OfOrderFourHaveSkewnessAndKurtosis) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const bool complex : {false, true}) {
    for (const std::int64_t length : {7, 513, 3001, 100003}) {
      for (const double mean : {0.0, 1e6}) {
        operation_case setup{
            .op = "moments", .settings = {}, .input = {.type = element_type::f32, .shape = {3, length}}};
        setup.input.type = complex ? element_type::cf32 : element_type::f32;
        setup.settings.set("order", std::int64_t{4});
        auto x = random.normal(values_in(setup.input, setup.extent), mean, 1.0);
        for (std::size_t at = 0; at < x.size(); at += 5) {
          x[at] = static_cast<float>(mean + std::exp(static_cast<double>(x[at]) - mean));
        }
        x.front() = static_cast<float>(mean + 1e5);
        const auto y = run<float>(setup, x);
        const std::size_t views = complex ? 3 : 1;
        const std::size_t step = static_cast<std::size_t>(length) * (complex ? 2 : 1);
        ASSERT_EQ(y.size(), 7 * views * 3);
        for (std::size_t row = 0; row < 3; ++row) {
          const auto expected = views_of(&x[row * step], static_cast<std::size_t>(length), complex);
          for (std::size_t view = 0; view < views; ++view) {
            ASSERT_NO_FATAL_FAILURE(expect_powers(&y[7 * (row * views + view)], expected[view],
                                                  setup.text() + ", row " + std::to_string(row) + ", view " +
                                                      std::to_string(view) + ", mean " + std::to_string(mean)));
          }
        }
      }
    }
  }
}

TEST_P(moments_operation, OfOrderFourTakeF64OfAnyUnit) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const double unit : {1e-120, 1.0, 1e120}) {
    operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::f64, .shape = {20011}}};
    setup.settings.set("order", std::int64_t{4});
    std::vector<double> x(20011);
    for (double& each : x) {
      each = unit * random.real(0.0, 1.0) * random.real(0.0, 1.0);
    }
    const auto y = run<float>(setup, x);
    const auto [skewness, kurtosis] = skewness_and_kurtosis(x);
    EXPECT_NEAR(y[5], skewness, 1e-5) << unit;
    EXPECT_NEAR(y[6], kurtosis, 3e-5) << unit;
  }
}

TEST_P(moments_operation, OfOrderFourAreNanForAFlatRow) {
  operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::f32, .shape = {100}}};
  setup.settings.set("order", std::int64_t{4});
  const auto y = run<float>(setup, std::vector<float>(100, 0.1F));
  EXPECT_EQ(y[0], 0.1F);
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_TRUE(std::isnan(y[6]));
}

TEST_P(moments_operation, MatchTwoPassesOfOtherWidths) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f16, element_type::bf16, element_type::f64}) {
    const element_codec codec{type};
    for (const std::int64_t length : {1, 2, 513, 3001, 40000}) {
      const operation_case setup{.op = "moments", .settings = {}, .input = {.type = type, .shape = {2, length}}};
      const auto count = static_cast<std::size_t>(length);
      std::vector<std::uint64_t> x(2 * count);
      std::vector<std::vector<double>> rows(2);
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = codec.encode(static_cast<long double>(random.real(-1.0, 2.0)));
        rows[i / count].push_back(static_cast<double>(codec.decode(x[i])));
      }
      const auto y = run<float>(setup, codec.encode_all(x));
      ASSERT_EQ(y.size(), 10U);
      for (std::size_t row = 0; row < 2; ++row) {
        ASSERT_NO_FATAL_FAILURE(expect_moments(&y[5 * row], rows[row], setup.text()));
      }
    }
  }
}

TEST_P(moments_operation, OfF64StayAccurateWhenTheMeanIsATrillionDeviations) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::f64, .shape = {30011}}};
  std::vector<double> x(30011);
  for (double& each : x) {
    each = 1e9 + random.real(-1e-3, 1e-3);
  }
  const auto y = run<float>(setup, x);
  ASSERT_NO_FATAL_FAILURE(expect_moments(y.data(), x, setup.text()));
}

TEST_P(moments_operation, StayAccurateWhenTheMeanIsAMillionDeviations) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const double mean : {1e6, -1e6}) {
    operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::f32, .shape = {100003}}};
    const auto x = random.normal(values_in(setup.input, setup.extent), mean, 1.0);
    ASSERT_NO_FATAL_FAILURE(expect_all_moments(setup, x, run<float>(setup, x)));
  }
}

TEST_P(moments_operation, StayAccurateWhenIAndQStandFarFromZero) {
  random_input random;
  SCOPED_TRACE(random.trace());
  operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::cf32, .shape = {2, 5000}}};
  setup.extent.frames = 3;
  const auto x = random.normal(values_in(setup.input, setup.extent), 1e4, 1.0);
  ASSERT_NO_FATAL_FAILURE(expect_all_moments(setup, x, run<float>(setup, x)));
}

TEST_P(moments_operation, StayAccurateWhenTheFirstValueIsAnOutlier) {
  random_input random;
  SCOPED_TRACE(random.trace());
  operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::f32, .shape = {30011}}};
  auto x = random.normal(values_in(setup.input, setup.extent), 1e6, 1.0);
  x[0] = -3e7F;
  ASSERT_NO_FATAL_FAILURE(expect_all_moments(setup, x, run<float>(setup, x)));
}

TEST_P(moments_operation, FindNoDeviationInAConstant) {
  operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::f32, .shape = {4099}}};
  const auto y = run<float>(setup, std::vector<float>(4099, 0.1F));
  EXPECT_EQ(y, (std::vector<float>{0.1F, 0.0F, 0.1F, 0.1F, 0.1F}));
}

TEST_P(moments_operation, OfOneValueAreThatValue) {
  operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::f32, .shape = {2, 1}}};
  EXPECT_EQ(run<float>(setup, std::vector<float>{-2.0F, 7.0F}),
            (std::vector<float>{-2.0F, 0.0F, -2.0F, -2.0F, 2.0F, 7.0F, 0.0F, 7.0F, 7.0F, 7.0F}));
}

TEST_P(moments_operation, BecomeNanInTheRowThatHoldsOne) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::f32, .shape = {3, 777}}};
  for (const std::size_t place : {std::size_t{0}, std::size_t{400}, std::size_t{776}}) {
    auto x = random.normal(values_in(setup.input, setup.extent));
    x[777 + place] = std::numeric_limits<float>::quiet_NaN();
    const auto y = run<float>(setup, x);
    ASSERT_EQ(y.size(), 15U);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), i / 5 == 1) << moment_names[i % 5] << " of row " << i / 5 << ", NaN at " << place;
    }
  }
}

TEST_P(moments_operation, OfQAndMagnitudeBecomeNanButNotOfI) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::cf32, .shape = {5003}}};
  for (const std::size_t place : {std::size_t{0}, std::size_t{20}, std::size_t{2600}, std::size_t{5002}}) {
    auto z = random.normal(values_in(setup.input, setup.extent));
    z[2 * place + 1] = std::numeric_limits<float>::quiet_NaN();
    const auto y = run<float>(setup, z);
    ASSERT_EQ(y.size(), 15U);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), i >= 5) << i << ", NaN at " << place;
    }
  }
}

TEST_P(moments_operation, KeepMinAndMaxBesideInfinities) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::size_t place = 0; place < 4; ++place) {
    std::vector<float> x{1.0F, 2.0F, -3.0F, 0.5F};
    x[place] = infinity;
    const operation_case setup{.op = "moments", .settings = {}, .input = {.type = element_type::f32, .shape = {4}}};
    const auto y = run<float>(setup, x);
    EXPECT_EQ(y[2], place == 2 ? 0.5F : -3.0F) << place;
    EXPECT_EQ(y[3], infinity) << place;
    EXPECT_FALSE(std::isfinite(y[0]) || std::isfinite(y[1]) || std::isfinite(y[4])) << place;
  }
}

}  // namespace
}  // namespace penstock
