#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/operator_sample.hpp"
#include "tests/kernels/random_input.hpp"
#include "tests/support/operation_runner.hpp"
#include "tests/support/session_runner.hpp"
#include "tests/support/test_backend.hpp"

namespace penstock {

/// A test that runs on each backend, whose device is opened once a suite.
template <class Runner>
class backend_test : public testing::TestWithParam<std::string> {
 public:
  static void TearDownTestSuite() { runners().clear(); }

 protected:
  [[nodiscard]] static Runner& runner() {
    std::unique_ptr<Runner>& runner = runners()[GetParam()];
    if (runner == nullptr) {
      runner = std::make_unique<Runner>(open_test_backend(GetParam()));
    }
    return *runner;
  }

 private:
  static std::map<std::string, std::unique_ptr<Runner>>& runners() {
    static std::map<std::string, std::unique_ptr<Runner>> open;
    return open;
  }
};

/// A test of an operator.
class operation_test : public backend_test<operation_runner> {
 protected:
  /// Runs the operator over `samples` and gives its output as elements of Out.
  template <class Out, class In>
  [[nodiscard]] std::vector<Out> run(const operation_case& setup, const std::vector<In>& samples) {
    return elements_of<Out>(runner().run(setup, std::as_bytes(std::span{samples})));
  }
  /// The same with several inputs, in their order.
  template <class Out, class In>
  [[nodiscard]] std::vector<Out> run(const operation_case& setup, const std::vector<std::vector<In>>& inputs) {
    std::vector<std::span<const std::byte>> bytes;
    for (const std::vector<In>& samples : inputs) {
      bytes.push_back(std::as_bytes(std::span{samples}));
    }
    return elements_of<Out>(runner().run(setup, input_bytes{bytes}));
  }

 private:
  template <class Out>
  [[nodiscard]] static std::vector<Out> elements_of(const std::vector<std::byte>& bytes) {
    std::vector<Out> out(bytes.size() / sizeof(Out));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(Out));
    return out;
  }
};

/// A test of an operator that keeps state.
class session_test : public backend_test<session_runner> {
 protected:
  /// Takes each of the signals through the operator as a session of its own; see session_runner.
  template <class Out, class In>
  [[nodiscard]] std::vector<std::vector<Out>> run(const session_case& setup,
                                                  const std::vector<std::vector<In>>& signals) {
    return runner().run<Out>(setup, signals);
  }
};

[[nodiscard]] inline std::string backend_name(const testing::TestParamInfo<std::string>& backend) {
  return backend.param;
}

using session_signals = std::vector<std::vector<float>>;

/// One signal for each session, of `steps` steps; rounded up to whole frames for a fixed input.
[[nodiscard]] inline session_signals random_signals(random_input& random, const session_case& setup,
                                                    const std::vector<std::int64_t>& steps, double mean = 0.0,
                                                    double deviation = 1.0) {
  const bool frames = setup.traits().whole_frames;
  const std::int64_t unit = frames || setup.input.variable ? 1 : setup.input.shape.front();
  const std::size_t values = setup.input_step_bytes() / sizeof(float);
  session_signals signals;
  for (const std::int64_t length : steps) {
    const auto whole = static_cast<std::size_t>((length + unit - 1) / unit * unit);
    signals.push_back(random.normal(whole * values, mean, deviation));
  }
  return signals;
}

/// Expects each value within `share` times the largest finite one, and NaN and infinities exactly where expected.
inline void expect_close(const std::vector<float>& got, const std::vector<double>& expected, double share,
                         const std::string& where) {
  ASSERT_EQ(got.size(), expected.size()) << where;
  double peak = 0.0;
  for (const double value : expected) {
    peak = std::isfinite(value) ? std::max(peak, std::abs(value)) : peak;
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      ASSERT_EQ(std::isnan(got[i]), std::isnan(expected[i])) << where << ", value " << i << " is " << got[i];
      ASSERT_FALSE(std::isfinite(got[i])) << where << ", value " << i;
    } else {
      ASSERT_NEAR(got[i], expected[i], share * peak) << where << ", value " << i << " of peak " << peak;
    }
  }
}

}  // namespace penstock

/// Makes the suite run on every backend to be tested.
#define PENSTOCK_ON_EACH_BACKEND(suite) \
  INSTANTIATE_TEST_SUITE_P(backends, suite, testing::ValuesIn(penstock::test_backends()), penstock::backend_name)
