#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

using complexes = std::vector<std::complex<double>>;

class correlate_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(correlate_operation);

/// Row `row` of elements of a batch, which holds (re, im) pairs when complex.
complexes row_of(const std::vector<float>& batch, bool complex, std::size_t length, std::size_t row) {
  complexes out(length);
  for (std::size_t i = 0; i < length; ++i) {
    const std::size_t at = row * length + i;
    out[i] = complex ? std::complex<double>{batch[2 * at], batch[2 * at + 1]} : batch[at];
  }
  return out;
}

/// The definition, term by term, in float64, of one row.
complexes correlated(const complexes& x, const complexes& h, const std::string& mode) {
  const auto n = static_cast<std::ptrdiff_t>(x.size());
  const auto m = static_cast<std::ptrdiff_t>(h.size());
  std::ptrdiff_t first = 0;
  std::ptrdiff_t results = n + m - 1;
  if (mode == "same") {
    first = (m - 1) / 2;
    results = n;
  } else if (mode == "valid") {
    first = std::min(n, m) - 1;
    results = std::max(n, m) - std::min(n, m) + 1;
  }
  complexes out(static_cast<std::size_t>(results));
  for (std::ptrdiff_t k = first; k < first + results; ++k) {
    for (std::ptrdiff_t tap = 0; tap < m; ++tap) {
      const std::ptrdiff_t at = tap + k - (m - 1);
      if (at >= 0 && at < n) {
        out[static_cast<std::size_t>(k - first)] +=
            x[static_cast<std::size_t>(at)] * std::conj(h[static_cast<std::size_t>(tap)]);
      }
    }
  }
  return out;
}

double largest(const complexes& values) {
  double most = 0.0;
  for (const auto& value : values) {
    most = std::max(most, std::abs(value));
  }
  return most;
}

void set_template(parameters& settings, const std::vector<float>& taps, bool complex) {
  std::vector<double> re;
  std::vector<double> im;
  for (std::size_t at = 0; at < taps.size(); ++at) {
    (complex && at % 2 == 1 ? im : re).push_back(taps[at]);
  }
  settings.set("template", re);
  if (complex) {
    settings.set("template_imag", im);
  }
}

struct random_case {
  operation_case setup;
  std::string mode;
  bool complex_signal;
  bool complex_template;
  std::size_t length;
  std::size_t taps;
  std::size_t bank;
  std::size_t rows;
  std::size_t rows_per_template;
  std::vector<std::vector<float>> inputs;
  std::vector<float> templates;
};

random_case make_case(random_input& random, std::int64_t longest, std::int64_t most_taps, const char* method) {
  constexpr const char* modes[] = {"full", "same", "valid"};
  random_case made;
  made.mode = modes[random.integer(0, 2)];
  made.complex_signal = random.coin();
  made.complex_template = random.coin();
  const auto type_of = [](bool complex) { return complex ? element_type::cf32 : element_type::f32; };
  made.setup = {
      .op = "correlate", .settings = {}, .input = random.fixed_row_spec(type_of(made.complex_signal), 1, longest)};
  made.setup.settings.set("mode", made.mode);
  made.setup.settings.set("method", std::string{method});
  made.setup.extent = random.extent(made.setup.input);
  made.setup.spare_frames = random.integer(0, 3);
  const std::int64_t taps = random.integer(1, most_taps);
  made.taps = static_cast<std::size_t>(taps);
  made.length = static_cast<std::size_t>(made.setup.input.shape.back());
  made.inputs.push_back(random.normal(values_in(made.setup.input, made.setup.extent)));
  made.rows = made.inputs[0].size() / made.length / (made.complex_signal ? 2 : 1);
  tensor_spec given{.type = type_of(made.complex_template), .shape = {taps}};
  made.bank = 1;
  if (random.coin()) {
    const std::int64_t bank = random.integer(1, 9);
    made.bank = static_cast<std::size_t>(bank);
    made.setup.settings.set("templates", bank);
    given.shape = {bank, taps};
  }
  const std::int64_t source = random.integer(0, 2);
  if (source == 0) {
    made.rows_per_template = made.rows;
    made.templates = random.normal(values_in(given, {.frames = 1}));
    set_template(made.setup.settings, made.templates, made.complex_template);
    return made;
  }
  made.rows_per_template = made.rows / static_cast<std::size_t>(made.setup.extent.frames);
  if (source == 2) {
    const auto& leading = made.setup.input.shape;
    given.shape.insert(given.shape.begin(), leading.begin(), leading.end() - 1);
    given.variable = made.setup.input.variable;
    made.rows_per_template = leading.size() == 1 ? made.rows_per_template : 1;
  }
  made.setup.further_inputs.push_back(given);
  made.templates = random.normal(values_in(given, made.setup.extent));
  made.inputs.push_back(made.templates);
  return made;
}

void expect_correlated(const random_case& tried, const std::vector<float>& y) {
  const bool complex = tried.complex_signal || tried.complex_template;
  for (std::size_t result_row = 0; result_row < tried.rows * tried.bank; ++result_row) {
    const std::size_t row = result_row / tried.bank;
    const std::size_t place = row / tried.rows_per_template * tried.bank + result_row % tried.bank;
    const complexes expected =
        correlated(row_of(tried.inputs[0], tried.complex_signal, tried.length, row),
                   row_of(tried.templates, tried.complex_template, tried.taps, place), tried.mode);
    ASSERT_EQ(y.size(), tried.rows * tried.bank * expected.size() * (complex ? 2 : 1)) << tried.setup.text();
    const complexes got = row_of(y, complex, expected.size(), result_row);
    const double peak = largest(expected);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      ASSERT_LE(std::abs(got[k] - expected[k]), 1e-5 * peak + 1e-6)
          << tried.setup.text() << " mode " << tried.mode << " taps " << tried.taps << " row " << row << " template "
          << result_row % tried.bank << " of " << tried.bank << " at " << k << ": " << got[k] << ", not "
          << expected[k];
    }
  }
}

TEST_P(correlate_operation, MatchesTheDefinitionByTheSum) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 60; ++round) {
    const random_case made = make_case(random, random.coin() ? 60 : 1500, random.coin() ? 20 : 700, "direct");
    expect_correlated(made, run<float>(made.setup, made.inputs));
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(correlate_operation, MatchesTheDefinitionByTransforms) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 60; ++round) {
    const random_case made = make_case(random, random.coin() ? 60 : 1500, random.coin() ? 20 : 700, "fft");
    expect_correlated(made, run<float>(made.setup, made.inputs));
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(correlate_operation, MatchesTheDefinitionByTheMethodThatItChooses) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 30; ++round) {
    const random_case made = make_case(random, 900, 400, "auto");
    expect_correlated(made, run<float>(made.setup, made.inputs));
    ASSERT_FALSE(HasFatalFailure());
  }
}

/// scipy.signal.correlate(x, h, mode), scipy 1.17.1, x = 1 … 5.
TEST_P(correlate_operation, GivesWhatScipyGives) {
  const std::vector<float> x{1, 2, 3, 4, 5};
  struct scipy_row {
    std::vector<double> h;
    const char* mode;
    std::vector<float> y;
  };
  const std::vector<scipy_row> table{
      {{2, -1, 0.5}, "full", {0.5F, 0, 1.5F, 3, 4.5F, 3, 10}},
      {{2, -1, 0.5}, "same", {0, 1.5F, 3, 4.5F, 3}},
      {{2, -1, 0.5}, "valid", {1.5F, 3, 4.5F}},
      {{1, -3}, "full", {-3, -5, -7, -9, -11, 5}},
      {{1, -3}, "same", {-3, -5, -7, -9, -11}},
      {{1, -3}, "valid", {-5, -7, -9, -11}},
      {{1, 2, -1, 3}, "full", {3, 5, 9, 14, 19, 6, 14, 5}},
      {{1, 2, -1, 3}, "same", {5, 9, 14, 19, 6}},
      {{1, 2, -1, 3}, "valid", {14, 19}},
      {{0.5, 1, -2, 4, 3, -1, 2}, "full", {2, 3, 7, 15, 21, 16, 27.5F, 16, -4.5F, 7, 2.5F}},
      {{0.5, 1, -2, 4, 3, -1, 2}, "same", {15, 21, 16, 27.5F, 16}},
      {{0.5, 1, -2, 4, 3, -1, 2}, "valid", {21, 16, 27.5F}},
  };
  for (const scipy_row& row : table) {
    for (const char* const method : {"direct", "fft"}) {
      operation_case setup{.op = "correlate", .settings = {}, .input = {.type = element_type::f32, .shape = {5}}};
      setup.settings.set("template", row.h);
      setup.settings.set("mode", std::string{row.mode});
      setup.settings.set("method", std::string{method});
      const auto y = run<float>(setup, x);
      ASSERT_EQ(y.size(), row.y.size()) << row.mode << " by " << method << " of " << row.h.size();
      for (std::size_t k = 0; k < y.size(); ++k) {
        EXPECT_NEAR(y[k], row.y[k], 2e-5) << row.mode << " by " << method << " of " << row.h.size() << " at " << k;
      }
    }
  }
}

TEST_P(correlate_operation, FindsATemplateInAMillionSamples) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f32, element_type::cf32}) {
    const bool complex = type == element_type::cf32;
    for (const std::int64_t taps : {31, 1001, 200'003}) {
      operation_case setup{.op = "correlate", .settings = {}, .input = {.type = type, .shape = {1'000'003}}};
      const auto h = random.normal(static_cast<std::size_t>(taps) * (complex ? 2 : 1));
      set_template(setup.settings, h, complex);
      setup.settings.set("mode", std::string{"valid"});
      auto x = random.normal(values_in(setup.input, setup.extent), 0.0, 0.1);
      const std::int64_t hidden = random.integer(0, 1'000'003 - taps);
      for (std::size_t i = 0; i < h.size(); ++i) {
        x[static_cast<std::size_t>(hidden) * (complex ? 2 : 1) + i] += h[i];
      }
      const complexes y = row_of(run<float>(setup, x), complex, static_cast<std::size_t>(1'000'003 - taps + 1), 0);
      const complexes signal = row_of(x, complex, 1'000'003, 0);
      const complexes of_template = row_of(h, complex, static_cast<std::size_t>(taps), 0);
      const auto term_by_term = [&](std::int64_t at) {
        const complexes part{signal.begin() + at, signal.begin() + at + taps};
        return correlated(part, of_template, "valid")[0];
      };
      const double peak = std::abs(term_by_term(hidden));
      const auto most = std::max_element(y.begin(), y.end(),
                                         [](const auto& a, const auto& b) { return std::norm(a) < std::norm(b); });
      EXPECT_EQ(most - y.begin(), hidden) << setup.text() << " taps " << taps;
      for (std::int64_t place = 0; place < 200; ++place) {
        const std::int64_t at = place == 0   ? hidden
                                : place == 1 ? static_cast<std::int64_t>(y.size()) - 1
                                             : random.integer(0, 1'000'003 - taps);
        ASSERT_LE(std::abs(y[static_cast<std::size_t>(at)] - term_by_term(at)), 1e-5 * peak)
            << setup.text() << " taps " << taps << " at " << at;
      }
    }
  }
}

/// The case of satellite navigation: 32 codes of 1023 chips in one millisecond of noise, several of them hidden.
TEST_P(correlate_operation, FindsTheTemplatesOfABankThatARowHolds) {
  random_input random;
  SCOPED_TRACE(random.trace());
  constexpr std::int64_t satellites = 32;
  constexpr std::size_t chips = 1023;
  operation_case setup{
      .op = "correlate", .settings = {}, .input = {.type = element_type::cf32, .shape = {2, 2 * chips - 1}}};
  setup.extent.frames = 3;
  setup.settings.set("templates", satellites);
  setup.settings.set("mode", std::string{"valid"});
  std::vector<float> codes(satellites * chips);
  for (float& chip : codes) {
    chip = random.coin() ? 1.0F : -1.0F;
  }
  set_template(setup.settings, codes, false);
  auto x = random.normal(values_in(setup.input, setup.extent), 0.0, 0.5);
  std::vector<std::pair<std::int64_t, std::int64_t>> hidden;
  for (std::size_t row = 0; row < 6; ++row) {
    hidden.emplace_back(random.integer(0, satellites - 1), random.integer(0, chips - 1));
    for (std::size_t chip = 0; chip < chips; ++chip) {
      const std::size_t at = row * (2 * chips - 1) + static_cast<std::size_t>(hidden[row].second) + chip;
      x[2 * at + 1] += codes[static_cast<std::size_t>(hidden[row].first) * chips + chip];
    }
  }
  const auto y = run<float>(setup, x);
  ASSERT_EQ(y.size(), 6 * satellites * chips * 2);
  for (std::size_t row = 0; row < 6; ++row) {
    const complexes of_row = row_of(y, true, satellites * chips, row);
    const auto most = std::max_element(of_row.begin(), of_row.end(),
                                       [](const auto& a, const auto& b) { return std::norm(a) < std::norm(b); });
    const auto at = static_cast<std::int64_t>(most - of_row.begin());
    EXPECT_EQ(at / static_cast<std::int64_t>(chips), hidden[row].first) << row;
    EXPECT_EQ(at % static_cast<std::int64_t>(chips), hidden[row].second) << row;
    EXPECT_NEAR(most->imag(), static_cast<double>(chips), 100.0) << row;
  }
}

/// Templates of very different sizes do not share a scale, and one that is not finite spoils its own results alone.
TEST_P(correlate_operation, KeepsEachTemplateOfABankToItself) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const char* const method : {"direct", "fft"}) {
    for (const bool from_frames : {false, true}) {
      constexpr std::size_t taps = 150;
      constexpr std::size_t length = 1009;
      operation_case setup{.op = "correlate", .settings = {}, .input = {.type = element_type::f32, .shape = {length}}};
      setup.settings.set("method", std::string{method});
      setup.settings.set("templates", std::int64_t{4});
      auto x = random.normal(length);
      auto h = random.normal(4 * taps);
      const float sizes[] = {1e-19F, 1.0F, from_frames ? std::numeric_limits<float>::infinity() : 1e19F, 1e-30F};
      for (std::size_t at = 0; at < h.size(); ++at) {
        h[at] *= sizes[at / taps];
      }
      for (float& value : x) {
        value *= 1e-7F;
      }
      std::vector<std::vector<float>> inputs{x};
      if (from_frames) {
        setup.further_inputs.push_back({.type = element_type::f32, .shape = {4, taps}});
        inputs.push_back(h);
      } else {
        set_template(setup.settings, h, false);
      }
      const auto y = run<float>(setup, inputs);
      ASSERT_EQ(y.size(), 4 * (length + taps - 1));
      for (std::size_t each = 0; each < 4; ++each) {
        const complexes got = row_of(y, false, length + taps - 1, each);
        if (std::isinf(sizes[each])) {
          EXPECT_FALSE(std::isfinite(got[taps].real())) << method;
          continue;
        }
        const complexes expected = correlated(row_of(x, false, length, 0), row_of(h, false, taps, each), "full");
        for (std::size_t k = 0; k < got.size(); ++k) {
          ASSERT_NEAR(got[k].real(), expected[k].real(), 1e-6 * largest(expected) + 1.2e-38)
              << method << ", template " << each << (from_frames ? " from frames" : "") << " at " << k;
        }
      }
    }
  }
}

/// Frames of one batch come from different clients, and each may bring its own template.
TEST_P(correlate_operation, GivesAFrameTheSameBesideNanAndBesideAFarLouderFrame) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f32, element_type::cf32}) {
    for (const std::int64_t length : {5, 33, 101, 999, 2000}) {
      for (const char* const method : {"direct", "fft"}) {
        operation_case setup{.op = "correlate", .settings = {}, .input = {.type = type, .shape = {length}}};
        setup.settings.set("method", std::string{method});
        setup.further_inputs.push_back({.type = type, .shape = {77}});
        const auto x = random.normal(values_in(setup.input, setup.extent));
        const auto h = random.normal(values_in(setup.further_inputs[0], setup.extent));
        const auto alone = run<float>(setup, std::vector<std::vector<float>>{x, h});
        std::vector<std::vector<float>> together(2);
        for (const float loudness : {1.0F, std::numeric_limits<float>::quiet_NaN(), 1.0F, 1e12F, 1.0F}) {
          for (const float value : x) {
            together[0].push_back(value * loudness);
          }
          for (const float value : h) {
            together[1].push_back(value * loudness);
          }
        }
        setup.extent.frames = 5;
        setup.spare_frames = 3;
        const auto y = run<float>(setup, together);
        const auto peak = std::abs(
            *std::max_element(alone.begin(), alone.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
        ASSERT_EQ(y.size(), 5 * alone.size());
        for (const std::size_t frame : {0U, 2U, 4U}) {
          for (std::size_t k = 0; k < alone.size(); ++k) {
            ASSERT_NEAR(y[frame * alone.size() + k], alone[k], 1e-6F * peak)
                << setup.text() << " by " << method << ", frame " << frame << " at " << k;
          }
        }
        EXPECT_TRUE(std::isnan(y[alone.size() + 3])) << setup.text() << " by " << method;
      }
    }
  }
}

/// Each result is within 1e-6 of the largest sample that it sees, and not finite only where it sees such a sample.
TEST_P(correlate_operation, GivesEachResultByItsOwnSamplesWhateverElseTheRowHolds) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const char* const method : {"direct", "fft"}) {
    for (const char* const mode : {"full", "valid"}) {
      for (const std::int64_t taps : {40, 449}) {
        for (const bool complex : {false, true}) {
          const element_type type = complex ? element_type::cf32 : element_type::f32;
          operation_case setup{.op = "correlate", .settings = {}, .input = {.type = type, .shape = {1500}}};
          const bool from_frames = random.coin();
          const bool is_bank = random.coin();  // of two alike
          std::vector<float> h;
          for (const double tap : low_pass(taps)) {
            h.push_back(static_cast<float>(tap));
            if (complex) {
              h.push_back(static_cast<float>(0.5 * tap));
            }
          }
          const std::vector<float> one = h;
          if (is_bank) {
            h.insert(h.end(), one.begin(), one.end());
            setup.settings.set("templates", std::int64_t{2});
          }
          if (from_frames) {
            setup.further_inputs.push_back({.type = type, .shape = {taps}});
            if (is_bank) {
              setup.further_inputs.back().shape = {2, taps};
            }
          } else {
            set_template(setup.settings, h, complex);
          }
          setup.settings.set("mode", std::string{mode});
          setup.settings.set("method", std::string{method});
          const std::size_t parts = complex ? 2 : 1;
          std::vector<std::vector<float>> inputs{wide_range_noise(random, 2 * 1500 * parts)};
          inputs[0][static_cast<std::size_t>(random.integer(1500, 2999)) * parts] =
              random.coin() ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
          setup.extent.frames = 2;
          if (from_frames) {
            inputs.push_back(h);
            inputs[1].insert(inputs[1].end(), h.begin(), h.end());
          }
          const auto y = run<float>(setup, inputs);
          const complexes of_template = row_of(one, complex, static_cast<std::size_t>(taps), 0);
          for (std::size_t result_row = 0; result_row < (is_bank ? 4 : 2); ++result_row) {
            const std::size_t row = is_bank ? result_row / 2 : result_row;
            const complexes x = row_of(inputs[0], complex, 1500, row);
            complexes finite = x;
            for (auto& value : finite) {
              value = std::isfinite(std::abs(value)) ? value : 0.0;
            }
            const complexes expected = correlated(finite, of_template, mode);
            const complexes got = row_of(y, complex, expected.size(), result_row);
            const std::ptrdiff_t first = (std::string{mode} == "full" ? 0 : taps - 1) - (taps - 1);
            for (std::size_t k = 0; k < got.size(); ++k) {
              double peak = 0.0;
              bool broken = false;
              for (std::ptrdiff_t at = std::max<std::ptrdiff_t>(0, first + static_cast<std::ptrdiff_t>(k));
                   at < std::min<std::ptrdiff_t>(1500, first + static_cast<std::ptrdiff_t>(k) + taps); ++at) {
                broken = broken || !std::isfinite(std::abs(x[static_cast<std::size_t>(at)]));
                peak = std::max(peak, std::abs(finite[static_cast<std::size_t>(at)]));
              }
              const auto where = [&] {
                return std::string(method) + ", " + mode + ", " + std::to_string(taps) +
                       (complex ? " complex" : " real") + " taps, row " + std::to_string(row) + " at " +
                       std::to_string(k);
              };
              if (broken) {
                ASSERT_FALSE(std::isfinite(std::abs(got[k]))) << where();
              } else {
                ASSERT_LE(std::abs(got[k] - expected[k]),
                          1e-6 * peak + static_cast<double>(std::numeric_limits<float>::min()))
                    << where() << ": " << got[k] << ", not " << expected[k] << " of a peak of " << peak;
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(correlate_operation, SumsManyLikeTermsToAMillionth) {
  for (const char* const method : {"direct", "fft"}) {
    operation_case setup{.op = "correlate", .settings = {}, .input = {.type = element_type::f32, .shape = {10000}}};
    set_template(setup.settings, std::vector<float>(5000, 0.1F), false);
    setup.settings.set("mode", std::string{"valid"});
    setup.settings.set("method", std::string{method});
    for (const float y : run<float>(setup, std::vector<float>(10000, 0.1F))) {
      ASSERT_NEAR(y, 50.0, 50.0 * 1e-6) << method;
    }
  }
}

TEST_P(correlate_operation, KeepsItsDigitsOfSamplesAndTemplatesNearTheEndsOfTheRange) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const auto& [samples, taps] : {std::pair{1e-19, 1e-19}, {1e-30, 1e25}, {1e25, 1e-30}, {1e18, 1e18}}) {
    for (const char* const method : {"direct", "fft"}) {
      operation_case setup{.op = "correlate", .settings = {}, .input = {.type = element_type::f32, .shape = {1500}}};
      auto x = random.normal(1500);
      auto h = random.normal(300);
      const auto scale = [](std::vector<float>& values, double factor) {
        for (float& value : values) {
          value = static_cast<float>(static_cast<double>(value) * factor);
        }
      };
      scale(x, samples);
      scale(h, taps);
      std::vector<std::vector<float>> inputs{x};
      if (random.coin()) {
        setup.further_inputs.push_back({.type = element_type::f32, .shape = {300}});
        inputs.push_back(h);
      } else {
        set_template(setup.settings, h, false);
      }
      setup.settings.set("mode", std::string{"valid"});
      setup.settings.set("method", std::string{method});
      const complexes expected = correlated(row_of(x, false, 1500, 0), row_of(h, false, 300, 0), "valid");
      const auto y = run<float>(setup, inputs);
      for (std::size_t k = 0; k < y.size(); ++k) {
        ASSERT_NEAR(y[k], expected[k].real(), 1e-5 * largest(expected) + 1.2e-38)
            << method << " of " << samples << " by " << taps;
      }
    }
  }
}

tensor_spec output_of(const entries& settings, std::initializer_list<tensor_spec> inputs) {
  return find_operator("correlate")->infer(settings_of(settings), std::vector<tensor_spec>(inputs));
}

/// The field of the parameter_error.
std::string refused(const entries& settings, std::initializer_list<tensor_spec> inputs) {
  try {
    static_cast<void>(output_of(settings, inputs));
  } catch (const parameter_error& error) {
    return error.field;
  }
  return "";
}

TEST(Correlate, PutsTheTemplatesOfABankBeforeTheResults) {
  const std::vector<double> six(6, 1.0);
  const tensor_spec rows{.type = element_type::f32, .shape = {4, 3, 100}, .variable = true};
  EXPECT_EQ(output_of({{"template", six}, {"templates", std::int64_t{2}}, {"mode", std::string{"valid"}}}, {rows}),
            (tensor_spec{.type = element_type::f32, .shape = {4, 3, 2, 98}, .variable = true}));
  EXPECT_EQ(output_of({{"template", six}, {"templates", std::int64_t{1}}}, {rows}),
            (tensor_spec{.type = element_type::f32, .shape = {4, 3, 1, 105}, .variable = true}));
  EXPECT_EQ(output_of({{"template", six}, {"templates", std::int64_t{2}}, {"axis", std::int64_t{0}}},
                      {{.type = element_type::f32, .shape = {100, 5}}}),
            (tensor_spec{.type = element_type::f32, .shape = {2, 102, 5}}));
}

TEST(Correlate, RefusesBanksThatDoNotFit) {
  const std::vector<double> five(5, 1.0);
  const tensor_spec rows{.type = element_type::f32, .shape = {3, 100}};
  const tensor_spec given{.type = element_type::f32, .shape = {3, 10}};
  EXPECT_EQ(refused({{"template", five}, {"templates", std::int64_t{2}}}, {rows}), "template");
  EXPECT_EQ(refused({{"template", five}, {"templates", std::int64_t{0}}}, {rows}), "templates");
  EXPECT_EQ(refused({{"templates", std::int64_t{2}}}, {rows, given}), "templates");
  EXPECT_EQ(refused({{"templates", std::int64_t{3}}}, {rows, {.type = element_type::f32, .shape = {10}}}), "from");
  EXPECT_EQ(refused({{"templates", std::int64_t{3}}}, {rows, given}), "");
  EXPECT_EQ(refused({{"axis", std::int64_t{0}}}, {rows, given}), "axis");
}

}  // namespace
}  // namespace penstock
