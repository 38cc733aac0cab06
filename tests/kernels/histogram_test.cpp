#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "tests/kernels/element_codec.hpp"
#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

constexpr std::size_t bins = 256;

/// floor((v - lo) 256 / (hi - lo)), clipped, in float64.
std::size_t bin_of_value(double v, double lo, double hi) {
  return static_cast<std::size_t>(std::clamp(std::floor((v - lo) * 256.0 / (hi - lo)), 0.0, 255.0));
}

class histogram_operation : public operation_test {
 protected:
  /// Compares with bins counted from the samples, one row and part after the other; `bin` is not asked about NaN.
  template <class Sample, class Bin>
  void expect_counts(const operation_case& setup, const std::vector<Sample>& x, Bin bin) {
    const std::size_t parts = is_complex(setup.input.type) ? 2 : 1;
    const bool whole = setup.input.variable && setup.input.shape.size() == 1;
    const auto length = static_cast<std::size_t>(whole ? setup.extent.leading : setup.input.shape.back());
    std::vector<std::int32_t> expected(x.size() / length * bins);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!std::isnan(static_cast<double>(x[i]))) {
        const std::size_t row = i / (length * parts) * parts + i % parts;
        ++expected[row * bins + bin(x[i])];
      }
    }
    const auto y = run<std::int32_t>(setup, x);
    ASSERT_EQ(y.size(), expected.size()) << setup.text();
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], expected[i]) << setup.text() << " row " << i / bins << " bin " << i % bins;
    }
  }

  template <class Sample, class Bin>
  void expect_counts_of_random(random_input& random, element_type type, Bin bin) {
    for (int round = 0; round < 6; ++round) {
      operation_case setup{.op = "histogram", .settings = {}, .input = random.spec(type, 1, round < 3 ? 50 : 4000)};
      setup.extent = random.extent(setup.input);
      setup.spare_frames = random.integer(0, 3);
      const auto x = random.integers<Sample>(values_in(setup.input, setup.extent));
      ASSERT_NO_FATAL_FAILURE(expect_counts(setup, x, bin));
    }
  }

  /// Counts the f32 that convert makes of every value of the type, in ascending order: 256 rows of equal length, so
  /// that all values of row r belong into bin r.
  template <class Sample>
  void expect_converted_rows_in_their_bins(element_type type) {
    std::vector<Sample> values(std::size_t{1} << (8 * sizeof(Sample)));
    std::iota(values.begin(), values.end(), std::numeric_limits<Sample>::min());
    const std::size_t length = values.size() / bins;
    const tensor_spec integers{.type = type, .shape = {static_cast<std::int64_t>(values.size())}};
    const auto floats = run<float>({.op = "convert", .settings = {}, .input = integers}, values);
    const tensor_spec rows{.type = element_type::f32, .shape = {bins, static_cast<std::int64_t>(length)}};
    const auto counts = run<std::int32_t>({.op = "histogram", .settings = {}, .input = rows}, floats);
    ASSERT_EQ(counts.size(), bins * bins);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      ASSERT_EQ(counts[i], i / bins == i % bins ? static_cast<std::int32_t>(length) : 0)
          << "row " << i / bins << " bin " << i % bins;
    }
  }
};
PENSTOCK_ON_EACH_BACKEND(histogram_operation);

TEST_P(histogram_operation, CountsBytesOfAnyShape) {
  random_input random;
  SCOPED_TRACE(random.trace());
  expect_counts_of_random<std::uint8_t>(random, element_type::u8, [](auto x) { return x; });
  expect_counts_of_random<std::uint8_t>(random, element_type::cu8, [](auto x) { return x; });
  const auto from_signed = [](auto x) { return static_cast<std::size_t>(x + 128); };
  expect_counts_of_random<std::int8_t>(random, element_type::i8, from_signed);
  expect_counts_of_random<std::int8_t>(random, element_type::ci8, from_signed);
}

TEST_P(histogram_operation, CountsTheHighBytesOfLongerIntegers) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const auto from_short = [](auto x) { return static_cast<std::size_t>((x + 32768) / 256); };
  expect_counts_of_random<std::int16_t>(random, element_type::i16, from_short);
  expect_counts_of_random<std::int16_t>(random, element_type::ci16, from_short);
  expect_counts_of_random<std::int32_t>(random, element_type::i32, [](auto x) {
    return static_cast<std::size_t>((static_cast<std::int64_t>(x) + 2147483648LL) / 16777216);
  });
}

TEST_P(histogram_operation, CountsFloatsIntoAnyRange) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 16; ++round) {
    const element_type type = random.coin() ? element_type::f32 : element_type::cf32;
    operation_case setup{.op = "histogram", .settings = {}, .input = random.spec(type, 1, 3000)};
    setup.extent = random.extent(setup.input);
    const double lo = round < 4 ? -2.0 : random.real(-3.0, 0.0);
    const double hi = round < 4 ? 2.0 : random.real(0.1, 3.0);
    setup.settings.set("range", std::vector<double>{lo, hi});
    const auto x = random.normal(values_in(setup.input, setup.extent));
    ASSERT_NO_FATAL_FAILURE(expect_counts(setup, x, [lo, hi](double v) { return bin_of_value(v, lo, hi); }));
  }
}

TEST_P(histogram_operation, PutsEdgesWhereFloat64Does) {
  for (const auto& [lo, hi] : std::vector<std::pair<double, double>>{{-1.0, 1.0}, {0.0, 3.0}, {-0.1, 0.7}}) {
    std::vector<float> x;
    for (int edge = -2; edge <= 258; ++edge) {
      const auto at = static_cast<float>(lo + (hi - lo) * edge / 256.0);
      x.insert(x.end(), {std::nextafter(at, -9.0F), at, std::nextafter(at, 9.0F)});
    }
    operation_case setup{.op = "histogram", .settings = {}, .input = {.type = element_type::f32, .shape = {}}};
    setup.input.shape = {static_cast<std::int64_t>(x.size()), 1};
    setup.settings.set("range", std::vector<double>{lo, hi});
    const double low = lo;
    const double high = hi;
    ASSERT_NO_FATAL_FAILURE(expect_counts(setup, x, [low, high](double v) { return bin_of_value(v, low, high); }));
  }
}

TEST_P(histogram_operation, IsExactForEveryConvertedU8) {
  expect_converted_rows_in_their_bins<std::uint8_t>(element_type::u8);
}

TEST_P(histogram_operation, IsExactForEveryConvertedI8) {
  expect_converted_rows_in_their_bins<std::int8_t>(element_type::i8);
}

TEST_P(histogram_operation, IsExactForEveryConvertedI16) {
  expect_converted_rows_in_their_bins<std::int16_t>(element_type::i16);
}

TEST_P(histogram_operation, CountsTheHighByteOfU16) {
  random_input random;
  SCOPED_TRACE(random.trace());
  expect_counts_of_random<std::uint16_t>(random, element_type::u16,
                                         [](auto x) { return static_cast<std::size_t>(x / 256); });
}

TEST_P(histogram_operation, CountsFloatsOfOtherWidths) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f16, element_type::bf16, element_type::f64}) {
    const element_codec codec{type};
    for (const auto& [lo, hi] : std::vector<std::pair<double, double>>{{-1.0, 1.0}, {-0.3, 2.0}}) {
      for (const std::int64_t length : {1, 37, 700, 20000}) {
        operation_case setup{.op = "histogram", .settings = {}, .input = {.type = type, .shape = {3, length}}};
        setup.settings.set("range", std::vector<double>{lo, hi});
        std::vector<std::uint64_t> x(static_cast<std::size_t>(3 * length));
        std::vector<std::int32_t> expected(3 * bins);
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] = codec.encode(static_cast<long double>(random.real(-2.0, 2.5)));
          x[i] = i % 50 == 7 ? codec.encode(std::numeric_limits<long double>::quiet_NaN()) : x[i];
          const auto value = static_cast<double>(codec.decode(x[i]));
          if (!std::isnan(value)) {
            ++expected[i / static_cast<std::size_t>(length) * bins + bin_of_value(value, lo, hi)];
          }
        }
        EXPECT_EQ(run<std::int32_t>(setup, codec.encode_all(x)), expected) << setup.text() << " from " << lo;
      }
    }
  }
}

TEST_P(histogram_operation, CountsNanNowhereAndInfinitiesAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const operation_case setup{.op = "histogram", .settings = {}, .input = {.type = element_type::f32, .shape = {7}}};
  const auto y = run<std::int32_t>(setup, std::vector<float>{nan, infinity, 5.0F, -infinity, nan, -1.0F, 0.0F});
  std::vector<std::int32_t> expected(bins);
  expected[0] = 2;
  expected[128] = 1;
  expected[255] = 2;
  EXPECT_EQ(y, expected);
}

TEST_P(histogram_operation, CountsALongRowThatHoldsOneValue) {
  operation_case setup{.op = "histogram", .settings = {}, .input = {.type = element_type::cu8, .shape = {300007}}};
  const auto y = run<std::int32_t>(setup, std::vector<std::uint8_t>(600014, 77));
  std::vector<std::int32_t> expected(2 * bins);
  expected[77] = 300007;
  expected[bins + 77] = 300007;
  EXPECT_EQ(y, expected);
}

}  // namespace
}  // namespace penstock
