#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

constexpr double pi = std::numbers::pi;

class power_spectrum_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(power_spectrum_operation);

double hann(std::size_t i, std::size_t length) {
  const double s = std::sin(pi * static_cast<double>(i) / static_cast<double>(length));
  return s * s;
}

/// The definition, term by term, in float64. `row` holds re, im, re, ... for complex input.
std::vector<double> naive_powers(const float* row, std::size_t length, bool complex, bool weighted) {
  std::vector<std::complex<double>> turns(length);
  std::vector<std::complex<double>> x(length);
  for (std::size_t i = 0; i < length; ++i) {
    turns[i] = std::polar(1.0, -2.0 * pi * static_cast<double>(i) / static_cast<double>(length));
    x[i] = complex ? std::complex<double>{row[2 * i], row[2 * i + 1]} : row[i];
    x[i] *= weighted ? hann(i, length) : 1.0;
  }
  std::vector<double> powers(complex ? length : length / 2 + 1);
  for (std::size_t k = 0; k < powers.size(); ++k) {
    std::complex<double> sum = 0.0;
    for (std::size_t i = 0; i < length; ++i) {
      sum += x[i] * turns[i * k % length];
    }
    powers[k] = std::norm(sum);
  }
  return powers;
}

struct spectrum_rows {
  std::size_t count;
  std::size_t values;  ///< of the input, in floats
  std::size_t length;
};

spectrum_rows rows_of(const operation_case& setup, std::size_t values) {
  const auto length = static_cast<std::size_t>(setup.input.shape.back());
  const std::size_t row = length * (is_complex(setup.input.type) ? 2 : 1);
  return {.count = values / row, .values = row, .length = length};
}

operation_case random_spectrum_case(random_input& random, std::int64_t longest) {
  const element_type type = random.coin() ? element_type::f32 : element_type::cf32;
  operation_case setup{.op = "power_spectrum", .settings = {}, .input = random.fixed_row_spec(type, 2, longest)};
  setup.extent = random.extent(setup.input);
  setup.spare_frames = random.integer(0, 3);
  return setup;
}

TEST_P(power_spectrum_operation, MatchesTheDefinitionForAnyLength) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 24; ++round) {
    operation_case setup = random_spectrum_case(random, 90);
    const bool weighted = random.coin();
    setup.settings.set("window", std::string{weighted ? "hann" : "rectangular"});
    const auto x = random.normal(values_in(setup.input, setup.extent), 0.1);
    const auto y = run<float>(setup, x);
    const spectrum_rows rows = rows_of(setup, x.size());
    for (std::size_t row = 0; row < rows.count; ++row) {
      const auto expected = naive_powers(&x[row * rows.values], rows.length, is_complex(setup.input.type), weighted);
      const double peak = *std::max_element(expected.begin(), expected.end());
      ASSERT_EQ(y.size(), rows.count * expected.size()) << setup.text();
      for (std::size_t k = 0; k < expected.size(); ++k) {
        ASSERT_NEAR(y[row * expected.size() + k], expected[k], 1e-5 * peak)
            << setup.text() << " row " << row << " bin " << k;
      }
    }
  }
}

TEST_P(power_spectrum_operation, MatchesTheDefinitionForLongRows) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t length : {1000, 1024, 1021}) {
    for (const element_type type : {element_type::f32, element_type::cf32}) {
      operation_case setup{.op = "power_spectrum", .settings = {}, .input = {.type = type, .shape = {length}}};
      const auto x = random.normal(values_in(setup.input, setup.extent));
      const auto y = run<float>(setup, x);
      const auto expected = naive_powers(x.data(), static_cast<std::size_t>(length), is_complex(type), true);
      const double peak = *std::max_element(expected.begin(), expected.end());
      ASSERT_EQ(y.size(), expected.size());
      for (std::size_t k = 0; k < expected.size(); ++k) {
        ASSERT_NEAR(y[k], expected[k], 1e-5 * peak) << setup.text() << " bin " << k;
      }
    }
  }
}

TEST_P(power_spectrum_operation, ShowsDecibelsOfTheSamePower) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 12; ++round) {
    operation_case setup = random_spectrum_case(random, 70);
    setup.settings.set("scale", std::string{"db"});
    const auto x = random.normal(values_in(setup.input, setup.extent), 0.0, std::pow(10.0, random.real(-9.0, 3.0)));
    const auto y = run<float>(setup, x);
    const spectrum_rows rows = rows_of(setup, x.size());
    const double gain = std::pow(static_cast<double>(rows.length) / 2.0, 2.0);  // the sum of a Hann window, squared
    for (std::size_t row = 0; row < rows.count; ++row) {
      const auto powers = naive_powers(&x[row * rows.values], rows.length, is_complex(setup.input.type), true);
      const double peak = *std::max_element(powers.begin(), powers.end());
      const auto level = [gain](double power) { return 10.0 * std::log10(std::max(power / gain, 1e-20)); };
      ASSERT_EQ(y.size(), rows.count * powers.size()) << setup.text();
      for (std::size_t k = 0; k < powers.size(); ++k) {
        const float got = y[row * powers.size() + k];
        ASSERT_GE(got, level(powers[k] - 1e-5 * peak) - 1e-4) << setup.text() << " row " << row << " bin " << k;
        ASSERT_LE(got, level(powers[k] + 1e-5 * peak) + 1e-4) << setup.text() << " row " << row << " bin " << k;
      }
    }
  }
}

TEST_P(power_spectrum_operation, ShowsDecibelsToAFewUnitsInTheLastPlace) {
  std::vector<float> levels;
  for (double decibels = -199.0; decibels < 199.0; decibels += 0.037) {
    levels.insert(levels.end(), 2, static_cast<float>(std::pow(10.0, decibels / 20.0)));
  }
  operation_case setup{.op = "power_spectrum", .settings = {}, .input = {.type = element_type::f32, .shape = {2}}};
  setup.extent.frames = static_cast<std::int64_t>(levels.size() / 2);
  setup.settings.set("window", std::string{"rectangular"});
  setup.settings.set("scale", std::string{"db"});
  const auto y = run<float>(setup, levels);
  ASSERT_EQ(y.size(), levels.size());
  for (std::size_t row = 0; row < levels.size(); row += 2) {
    const double expected = 20.0 * std::log10(static_cast<double>(levels[row]));
    ASSERT_NEAR(y[row], expected, 3e-7 * std::abs(expected) + 3e-6) << "row " << row / 2;
    ASSERT_NEAR(y[row + 1], -200.0, 1e-4) << "row " << row / 2;
  }
}

TEST_P(power_spectrum_operation, ShowsTheDecibelsOfAnyUnitDownToItsFloor) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f32, element_type::cf32}) {
    for (const double unit : {1e-30, 1e-21, 1e-15, 1.0, 1e18, 1e34}) {
      for (const double floor : {-700.0, 20.0 * std::log10(unit)}) {
        operation_case setup{.op = "power_spectrum", .settings = {}, .input = {.type = type, .shape = {250}}};
        setup.settings.set("scale", std::string{"db"});
        setup.settings.set("floor", floor);
        const auto x = random.normal(values_in(setup.input, setup.extent), 0.0, unit);
        const auto y = run<float>(setup, x);
        const auto powers = naive_powers(x.data(), 250, is_complex(type), true);
        const double peak = *std::max_element(powers.begin(), powers.end());
        const auto level = [&](double power) {
          return std::max(floor, 10.0 * std::log10(std::max(power, 0.0) / (125.0 * 125.0)));
        };
        for (std::size_t k = 0; k < powers.size(); ++k) {
          ASSERT_GE(y[k], level(powers[k] - 1e-5 * peak) - 1e-3) << unit << ", bin " << k;
          ASSERT_LE(y[k], level(powers[k] + 1e-5 * peak) + 1e-3) << unit << ", bin " << k;
        }
      }
    }
  }
}

TEST_P(power_spectrum_operation, PutsAComplexToneIntoItsBinAtZeroDecibels) {
  for (const auto& [length, bin] : {std::pair{256U, 3U}, {256U, 250U}, {1U << 19U, 400'007U}}) {
    std::vector<float> tone(std::size_t{2} * length);
    for (std::size_t i = 0; i < length; ++i) {
      const double angle = 2.0 * pi * static_cast<double>(i * bin % length) / length;
      tone[2 * i] = static_cast<float>(std::cos(angle));
      tone[2 * i + 1] = static_cast<float>(std::sin(angle));
    }
    operation_case setup{
        .op = "power_spectrum", .settings = {}, .input = {.type = element_type::cf32, .shape = {length}}};
    setup.settings.set("scale", std::string{"db"});
    const auto y = run<float>(setup, tone);
    EXPECT_NEAR(y[bin], 0.0, 1e-4);
    EXPECT_EQ(std::max_element(y.begin(), y.end()) - y.begin(), static_cast<std::ptrdiff_t>(bin));
  }
}

TEST_P(power_spectrum_operation, ShowsARealToneAtMinusSixDecibels) {
  constexpr std::size_t length = 1000;
  std::vector<float> tone(length);
  for (std::size_t i = 0; i < length; ++i) {
    tone[i] = static_cast<float>(std::cos(2.0 * pi * static_cast<double>(i * 17 % length) / length));
  }
  operation_case setup{.op = "power_spectrum", .settings = {}, .input = {.type = element_type::f32, .shape = {length}}};
  setup.settings.set("scale", std::string{"db"});
  const auto y = run<float>(setup, tone);
  ASSERT_EQ(y.size(), 501U);
  EXPECT_NEAR(y[17], 20.0 * std::log10(0.5), 1e-4);
}

TEST_P(power_spectrum_operation, ShowsSilenceAtTheFloor) {
  operation_case setup{.op = "power_spectrum", .settings = {}, .input = {.type = element_type::f32, .shape = {6}}};
  setup.settings.set("scale", std::string{"db"});
  for (const float level : run<float>(setup, std::vector<float>(6))) {
    EXPECT_NEAR(level, -200.0, 1e-4);
  }
}

TEST_P(power_spectrum_operation, SpoilsOnlyTheRowThatHoldsNan) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const char* const scale : {"power", "db"}) {
    operation_case setup{
        .op = "power_spectrum", .settings = {}, .input = {.type = element_type::cf32, .shape = {3, 12}}};
    setup.settings.set("scale", std::string{scale});
    auto x = random.normal(values_in(setup.input, setup.extent));
    x[24 + 5] = std::numeric_limits<float>::quiet_NaN();
    const auto y = run<float>(setup, x);
    ASSERT_EQ(y.size(), 36U);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isfinite(y[i]), i / 12 != 1) << scale << " at " << i;
    }
  }
}

TEST_P(power_spectrum_operation, GivesEachFrameOfALargeBatchWhatItGivesItAlone) {
  random_input random;
  SCOPED_TRACE(random.trace());
  operation_case setup{.op = "power_spectrum", .settings = {}, .input = {.type = element_type::cf32, .shape = {64}}};
  setup.extent.frames = 700;
  const auto x = random.normal(values_in(setup.input, setup.extent));
  const auto together = run<float>(setup, x);
  ASSERT_EQ(together.size(), 700U * 64U);
  setup.extent.frames = 1;
  for (const std::ptrdiff_t frame : {0, 1, 350, 699}) {
    const std::vector<float> one{x.begin() + frame * 128, x.begin() + (frame + 1) * 128};
    const auto alone = run<float>(setup, one);
    const double peak = *std::max_element(alone.begin(), alone.end());
    for (std::size_t k = 0; k < 64; ++k) {
      EXPECT_NEAR(together[static_cast<std::size_t>(frame) * 64 + k], alone[k], 1e-6 * peak) << frame << ", " << k;
    }
  }
}

// Frames of one batch come from different clients: whatever one holds, the others' spectra are as if it were not there.
class power_spectrum_isolation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(power_spectrum_isolation);

// Odd, even, prime, twice a prime, powers of two, and spectrum_lengths around them.
constexpr std::int64_t spectrum_lengths[] = {2,    3,    5,    7,    9,    15,   16,   17,   22,  31,  34,
                                             46,   63,   64,   77,   99,   101,  202,  333,  334, 501, 514,
                                             1000, 1022, 1024, 1026, 1536, 2018, 2048, 4094, 4096};

operation_case frames_of(element_type type, std::int64_t length, std::int64_t frames) {
  operation_case setup{.op = "power_spectrum", .settings = {}, .input = {.type = type, .shape = {length}}};
  setup.extent.frames = frames;
  setup.spare_frames = 3;
  return setup;
}

TEST_P(power_spectrum_isolation, SpectrumIsTheSameBesideNanAndBesideAFarLouderFrame) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f32, element_type::cf32}) {
    for (const std::int64_t length : spectrum_lengths) {
      const operation_case alone = frames_of(type, length, 1);
      const operation_case together = frames_of(type, length, 5);
      const std::vector<float> quiet = random.normal(values_in(alone.input, alone.extent), 0.1);
      std::vector<float> frames;
      for (const float loudness : {1.0F, std::numeric_limits<float>::quiet_NaN(), 1.0F, 1e12F, 1.0F}) {
        std::transform(quiet.begin(), quiet.end(), std::back_inserter(frames),
                       [=](float value) { return value * loudness; });
      }
      const std::vector<float> expected = run<float>(alone, quiet);
      const std::vector<float> got = run<float>(together, frames);
      const float peak = *std::max_element(expected.begin(), expected.end());
      for (const std::size_t frame : {0U, 2U, 4U}) {
        for (std::size_t bin = 0; bin < expected.size(); ++bin) {
          ASSERT_NEAR(got[frame * expected.size() + bin], expected[bin], 1e-5F * peak)
              << together.text() << " frame " << frame << " bin " << bin;
        }
      }
    }
  }
}

}  // namespace

}  // namespace penstock
