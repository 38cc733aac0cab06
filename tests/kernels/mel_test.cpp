#include "kernels/mel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

struct bank {
  std::int64_t bins = 257;
  double rate = 16000;
  std::int64_t count = 128;
  double low = 0;
  double high = 0;  ///< 0: half the rate
  bool slaney = false;
  bool unit_area = false;
  std::int64_t length = 0;  ///< 0: 2 (bins − 1)

  [[nodiscard]] parameters settings() const {
    parameters made = settings_of({{"rate", rate},
                                   {"count", count},
                                   {"low", low},
                                   {"scale", std::string(slaney ? "slaney" : "htk")},
                                   {"norm", std::string(unit_area ? "slaney" : "none")}});
    if (high != 0) {
      made.set("high", high);
    }
    if (length != 0) {
      made.set("length", length);
    }
    return made;
  }
};

/// The corners of the triangles by bisection of the scale, which its formula's other direction has no part in.
double frequency_of(double mel, bool slaney) {
  const auto mel_of = [&](double f) {
    return slaney ? (f < 1000 ? f * 3 / 200 : 15 + 27 * std::log(f / 1000) / std::log(6.4))
                  : 2595 * std::log10(1 + f / 700);
  };
  double low = 0;
  double high = 1e6;
  for (int round = 0; round < 200; ++round) {
    const double middle = (low + high) / 2;
    (mel_of(middle) < mel ? low : high) = middle;
  }
  return high;
}

/// librosa.filters.mel in float64: [count][bins].
std::vector<std::vector<double>> triangles(const bank& design) {
  const auto scale = [&](double f) {
    return design.slaney ? (f < 1000 ? f * 3 / 200 : 15 + 27 * std::log(f / 1000) / std::log(6.4))
                         : 2595 * std::log10(1 + f / 700);
  };
  const double high = design.high == 0 ? design.rate / 2 : design.high;
  const std::int64_t length = design.length == 0 ? 2 * (design.bins - 1) : design.length;
  std::vector<double> corners;
  for (std::int64_t at = 0; at < design.count + 2; ++at) {
    const double share = static_cast<double>(at) / static_cast<double>(design.count + 1);
    corners.push_back(frequency_of(scale(design.low) + share * (scale(high) - scale(design.low)), design.slaney));
  }
  std::vector<std::vector<double>> all;
  for (std::size_t m = 0; m < static_cast<std::size_t>(design.count); ++m) {
    std::vector<double> row;
    for (std::int64_t k = 0; k < design.bins; ++k) {
      const double f = static_cast<double>(k) * design.rate / static_cast<double>(length);
      const double up = (f - corners[m]) / (corners[m + 1] - corners[m]);
      const double down = (corners[m + 2] - f) / (corners[m + 2] - corners[m + 1]);
      row.push_back(std::max(0.0, std::min(up, down)) * (design.unit_area ? 2 / (corners[m + 2] - corners[m]) : 1));
    }
    all.push_back(std::move(row));
  }
  return all;
}

class mel_operation : public operation_test {
 protected:
  void expect_sums(const bank& design, const std::vector<float>& batch, const operation_case& setup) {
    const auto got = run<float>(setup, batch);
    const auto filters = triangles(design);
    const auto bins = static_cast<std::size_t>(design.bins);
    ASSERT_EQ(got.size(), batch.size() / bins * filters.size());
    for (std::size_t row = 0; row < batch.size() / bins; ++row) {
      for (std::size_t m = 0; m < filters.size(); ++m) {
        double sum = 0;
        double bound = 0;
        bool finite = true;
        for (std::size_t k = 0; k < bins; ++k) {
          const double value = batch[row * bins + k];
          if (filters[m][k] > 1e-9) {
            finite = finite && std::isfinite(value);
            sum += filters[m][k] * value;
            bound += 1e-6 * std::abs(filters[m][k] * value);
          } else if (std::isfinite(value)) {
            bound += 2e-9 * std::abs(value);  // a corner that rounds to the other side of the bin
          }
        }
        const float value = got[row * filters.size() + m];
        if (finite) {
          ASSERT_NEAR(value, sum, bound + 1e-30) << "row " << row << ", triangle " << m << " of " << design.count;
        } else {
          ASSERT_FALSE(std::isfinite(value)) << "row " << row << ", triangle " << m;
        }
      }
    }
  }

  random_input random_;
};
PENSTOCK_ON_EACH_BACKEND(mel_operation);

TEST_P(mel_operation, SumsTheBinsUnderEachTriangle) {
  SCOPED_TRACE(random_.trace());
  for (const bank& design :
       {bank{}, bank{201, 16000, 80, 20, 7600, true, true}, bank{1025, 22050, 128, 0, 0, true, true},
        bank{513, 44100, 40, 300, 0, false, true}, bank{257, 8000, 1, 0, 0, true, false},
        bank{8, 15, 3, 0, 0, false, false, 15}, bank{17, 16000, 200}, bank{257, 16000, 64, 0, 24000}}) {
    const std::vector<std::int64_t> shape =
        random_.coin() ? std::vector<std::int64_t>{3, 2, design.bins} : std::vector<std::int64_t>{7, design.bins};
    operation_case setup{.op = "mel",
                         .settings = design.settings(),
                         .input = {.type = element_type::f32, .shape = shape, .variable = random_.coin()}};
    setup.extent = {.frames = 3, .leading = shape[0]};
    const auto batch = random_.normal(3 * static_cast<std::size_t>(setup.input.elements()));
    ASSERT_NO_FATAL_FAILURE(expect_sums(design, batch, setup));
  }
}

TEST_P(mel_operation, GivesEachSumByTheBinsOfItsTriangle) {
  SCOPED_TRACE(random_.trace());
  const bank design{257, 16000, 80};
  operation_case setup{
      .op = "mel", .settings = design.settings(), .input = {.type = element_type::f32, .shape = {257}}};
  setup.extent = {.frames = 5, .leading = 257};
  std::vector<float> batch = random_.normal(5 * 257);
  batch[20] = std::numeric_limits<float>::quiet_NaN();
  batch[257 + 90] = std::numeric_limits<float>::infinity();
  batch[2 * 257 + 140] = 3e37F;
  expect_sums(design, batch, setup);
}

TEST(Mel, RefusesWhatItCannotDo) {
  const tensor_spec input{.type = element_type::f32, .shape = {10, 257}};
  const auto with = [](parameters made) {
    if (!made.has("rate")) {
      made.set("rate", 16000.0);
    }
    return made;
  };
  expect_refused("mel", {}, {input}, "rate", "missing");
  expect_refused("mel", settings_of({{"rate", 0.0}}), {input}, "rate", "above 0");
  expect_refused("mel", with(settings_of({{"count", std::int64_t{0}}})), {input}, "count", "from 1 to 4096, not 0");
  expect_refused("mel", with(settings_of({{"low", -1.0}})), {input}, "low", "from 0");
  expect_refused("mel", with(settings_of({{"low", 9000.0}})), {input}, "high", "above 'low'");
  expect_refused("mel", with(settings_of({{"length", std::int64_t{500}}})), {input}, "length", "of 500 has 251 bins");
  expect_refused("mel", with({}), {{.type = element_type::cf32, .shape = {257}}}, "from", "not cf32[257]");
}

}  // namespace
}  // namespace penstock
