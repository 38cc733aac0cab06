#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"
#include "tests/support/session_runner.hpp"

namespace penstock {
namespace {

class denormals : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(denormals);

constexpr double wanted = 1.5;

/// How much longer the quickest of several runs on denormal numbers takes than the quickest on others. Both take turns,
/// a few and, where others have the processor, up to a hundred until it is what is wanted.
template <class Run>
double slowness(Run run, std::size_t count, random_input& random) {
  using clock = std::chrono::steady_clock;
  const std::vector<float> usual = random.normal(count);
  std::vector<float> denormal = usual;
  for (float& value : denormal) {
    value = static_cast<float>(1e-40 * static_cast<double>(value));
  }
  const auto time = [&](const std::vector<float>& x) {
    const clock::time_point begin = clock::now();
    run(x);
    return static_cast<double>((clock::now() - begin).count());
  };
  double quickest = time(usual);
  double quickest_of_denormals = time(denormal);
  for (int turn = 0; turn < 100 && (turn < 4 || quickest_of_denormals >= wanted * quickest); ++turn) {
    quickest = std::min(quickest, time(usual));
    quickest_of_denormals = std::min(quickest_of_denormals, time(denormal));
  }
  return quickest_of_denormals / quickest;
}

TEST_P(denormals, CostNoMoreThanOtherNumbers) {
  random_input random;
  SCOPED_TRACE(random.trace());
  operation_case correlate{.op = "correlate", .settings = {}, .input = {.type = element_type::f32, .shape = {65536}}};
  correlate.settings.set("template", low_pass(64));
  correlate.settings.set("method", std::string{"direct"});
  operation_case spectrum{
      .op = "power_spectrum", .settings = {}, .input = {.type = element_type::f32, .shape = {64, 1024}}};
  for (const operation_case& setup : {correlate, spectrum}) {
    EXPECT_LT(slowness([&](const std::vector<float>& x) { static_cast<void>(run<float>(setup, x)); }, 65536, random),
              wanted)
        << setup.text();
  }
  session_runner sessions{open_test_backend(GetParam())};
  session_case fir{.op = "fir", .settings = {}, .input = {.type = element_type::f32, .shape = {32768}}};
  fir.settings.set("taps", low_pass(64));
  EXPECT_LT(slowness(
                [&](const std::vector<float>& x) {
                  static_cast<void>(sessions.run<float>(fir, std::vector<std::vector<float>>{x}));
                },
                65536, random),
            wanted);
}

TEST_P(denormals, AreZero) {
  const operation_case magnitude{
      .op = "magnitude", .settings = {}, .input = {.type = element_type::cf32, .shape = {2}}};
  const auto sizes = run<float>(magnitude, std::vector<float>{1e-40F, -1e-40F, 3e-38F, 4e-38F});
  EXPECT_EQ(sizes[0], 0.0F);
  EXPECT_FLOAT_EQ(sizes[1], 5e-38F);
  operation_case affine{.op = "affine", .settings = {}, .input = {.type = element_type::f32, .shape = {2}}};
  affine.settings.set("a", 0.001);
  affine.settings.set("b", 0.0);
  EXPECT_EQ(run<float>(affine, std::vector<float>{1e-36F, -1e-40F}), (std::vector<float>{0.0F, 0.0F}));
}

}  // namespace
}  // namespace penstock
