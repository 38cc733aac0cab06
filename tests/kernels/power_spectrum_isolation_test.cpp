#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

// Frames of one batch come from different clients: whatever one holds, the others' spectra are as if it were not there.
class power_spectrum_isolation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(power_spectrum_isolation);

// Odd, even, prime, twice a prime, powers of two, and lengths around them.
constexpr std::int64_t lengths[] = {2,    3,    5,    7,    9,    15,   16,   17,   22,  31,  34,
                                    46,   63,   64,   77,   99,   101,  202,  333,  334, 501, 514,
                                    1000, 1022, 1024, 1026, 1536, 2018, 2048, 4094, 4096};

operation_case frames_of(element_type type, std::int64_t length, std::int64_t frames) {
  operation_case what{.op = "power_spectrum", .settings = {}, .input = {.type = type, .shape = {length}}};
  what.extent.frames = frames;
  what.spare_frames = 3;
  return what;
}

TEST_P(power_spectrum_isolation, SpectrumIsTheSameBesideNanAndBesideAFarLouderFrame) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::f32, element_type::cf32}) {
    for (const std::int64_t length : lengths) {
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
