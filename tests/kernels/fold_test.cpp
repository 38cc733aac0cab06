#include <cmath>
#include <complex>
#include <limits>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class fold_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(fold_operation);

/// An operator on two to six inputs of a random spec, sometimes on the most.
operation_case random_fold(random_input& random, const char* op, element_type type) {
  operation_case setup{.op = op, .settings = {}, .input = random.spec(type, 1, 3000)};
  setup.extent = random.extent(setup.input);
  setup.spare_frames = random.integer(0, 3);
  const std::int64_t inputs = random.integer(0, 9) == 0 ? 32 : random.integer(2, 6);
  setup.further_inputs.assign(static_cast<std::size_t>(inputs - 1), setup.input);
  return setup;
}

std::vector<std::vector<float>> random_batches(random_input& random, const operation_case& setup) {
  std::vector<std::vector<float>> batches(setup.further_inputs.size() + 1);
  for (std::vector<float>& batch : batches) {
    batch = random.normal(values_in(setup.input, setup.extent), 0.2);
  }
  return batches;
}

TEST_P(fold_operation, AddsTheElementsOfAllInputs) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 20; ++round) {
    const operation_case setup = random_fold(random, "add", random.coin() ? element_type::f32 : element_type::cf32);
    const auto x = random_batches(random, setup);
    const auto y = run<float>(setup, x);
    ASSERT_EQ(y.size(), x[0].size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      double sum = 0.0;
      double magnitudes = 0.0;
      for (const auto& input : x) {
        sum += input[i];
        magnitudes += std::abs(input[i]);
      }
      ASSERT_NEAR(y[i], sum, 1e-6 * magnitudes) << setup.text() << " at " << i;
    }
  }
}

TEST_P(fold_operation, MultipliesTheElementsOfAllRealInputs) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 20; ++round) {
    const operation_case setup = random_fold(random, "multiply", element_type::f32);
    const auto x = random_batches(random, setup);
    const auto y = run<float>(setup, x);
    ASSERT_EQ(y.size(), x[0].size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      double product = 1.0;
      for (const auto& input : x) {
        product *= input[i];
      }
      const double rounding = 1e-7 * static_cast<double>(x.size()) * std::abs(product);
      ASSERT_NEAR(y[i], product, rounding + 1e-44 * static_cast<double>(x.size())) << setup.text() << " at " << i;
    }
  }
}

TEST_P(fold_operation, MultipliesComplexInputsAndConjugatesThoseAfterTheFirst) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 20; ++round) {
    operation_case setup = random_fold(random, "multiply", element_type::cf32);
    const bool conjugate = random.coin();
    setup.settings.set("conjugate", conjugate);
    const auto x = random_batches(random, setup);
    const auto y = run<std::complex<float>>(setup, x);
    ASSERT_EQ(2 * y.size(), x[0].size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      std::complex<double> product{x[0][2 * i], x[0][2 * i + 1]};
      for (std::size_t input = 1; input < x.size(); ++input) {
        product *= std::complex<double>{x[input][2 * i], (conjugate ? -1.0 : 1.0) * x[input][2 * i + 1]};
      }
      const double inputs = static_cast<double>(x.size());
      ASSERT_LE(std::abs(std::complex<double>{y[i]} - product), 3e-7 * inputs * std::abs(product) + 1e-43 * inputs)
          << setup.text() << " at " << i;
    }
  }
}

TEST_P(fold_operation, KeepsNanToTheElementThatHoldsIt) {
  for (const char* const op : {"add", "multiply"}) {
    operation_case setup{.op = op, .settings = {}, .input = {.type = element_type::cf32, .shape = {5}}};
    setup.extent.frames = 3;
    setup.further_inputs.push_back(setup.input);
    std::vector<std::vector<float>> x(2, std::vector<float>(30, 1.5F));
    x[1][12] = std::numeric_limits<float>::quiet_NaN();
    const auto y = run<std::complex<float>>(setup, x);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i].real()), i == 6) << op << " at " << i;
    }
  }
}

TEST_P(fold_operation, TakesAMillionElements) {
  random_input random;
  SCOPED_TRACE(random.trace());
  operation_case setup{.op = "add", .settings = {}, .input = {.type = element_type::f32, .shape = {1'000'003}}};
  setup.further_inputs.assign(2, setup.input);
  const auto x = random_batches(random, setup);
  const auto y = run<float>(setup, x);
  ASSERT_EQ(y.size(), x[0].size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(y[i], x[0][i] + x[1][i] + x[2][i]) << i;
  }
}

}  // namespace
}  // namespace penstock
