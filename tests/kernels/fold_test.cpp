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

/// A constant array and the frames that it meets, with the product by definition.
struct constant_case {
  operation_case setup;
  std::vector<std::int64_t> extents;  ///< of the constant, laid against the last of the frame
  std::vector<std::complex<double>> by;
  bool complex = false;
  bool conjugate = false;

  void give_constant() {
    std::vector<double> re;
    std::vector<double> im;
    for (const auto& each : by) {
      re.push_back(each.real());
      im.push_back(each.imag());
    }
    setup.settings.set("by", re);
    setup.settings.set("by_shape", std::vector<double>(extents.begin(), extents.end()));
    if (complex) {
      setup.settings.set("by_imag", im);
      setup.settings.set("conjugate", conjugate);
    }
  }
  /// The factor of an element of the batch, by its index along each axis.
  [[nodiscard]] std::complex<double> factor(std::size_t element) const {
    std::size_t place = 0;
    std::size_t step = 1;
    const auto& shape = setup.input.shape;
    for (std::size_t behind = 1; behind <= std::min(shape.size(), extents.size()); ++behind) {
      const auto extent = static_cast<std::size_t>(
          behind == shape.size() && setup.input.variable ? setup.extent.leading : shape[shape.size() - behind]);
      const auto own = static_cast<std::size_t>(extents[extents.size() - behind]);
      place += own == 1 ? 0 : element % extent * step;
      step *= own;
      element /= extent;
    }
    return conjugate ? std::conj(by[place]) : by[place];
  }
};

constant_case random_constant(random_input& random) {
  constant_case made;
  made.setup = {.op = "multiply",
                .settings = {},
                .input = {.type = random.coin() ? element_type::f32 : element_type::cf32, .shape = {}}};
  tensor_spec& input = made.setup.input;
  const std::int64_t axes = random.integer(1, 4);
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    input.shape.push_back(random.integer(1, axis == axes - 1 && random.coin() ? 900 : 7));
  }
  input.variable = random.coin();
  made.setup.extent = random.extent(input);
  made.setup.spare_frames = random.integer(0, 3);
  const std::int64_t own = random.integer(1, axes);
  std::int64_t count = 1;
  for (std::int64_t axis = axes - own; axis < axes; ++axis) {
    const bool is_one = random.coin() || (axis == 0 && input.variable);
    made.extents.push_back(is_one ? 1 : input.shape[static_cast<std::size_t>(axis)]);
    count *= made.extents.back();
  }
  if (random.coin()) {
    made.extents.insert(made.extents.begin(), 1);
  }
  made.complex = random.coin();
  made.conjugate = made.complex && random.coin();
  const auto numbers = random.normal(static_cast<std::size_t>(2 * count));
  for (std::size_t at = 0; at < numbers.size(); at += 2) {
    made.by.emplace_back(numbers[at], made.complex ? numbers[at + 1] : 0.0F);
  }
  made.give_constant();
  return made;
}

TEST_P(fold_operation, MultipliesByAConstantArrayAsNumpyLaysIt) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 120; ++round) {
    const constant_case each = random_constant(random);
    const bool complex_input = each.setup.input.type == element_type::cf32;
    const std::size_t parts = complex_input ? 2 : 1;
    const auto x = random.normal(values_in(each.setup.input, each.setup.extent));
    const auto y = run<float>(each.setup, x);
    const bool complex = complex_input || each.complex;
    ASSERT_EQ(y.size(), x.size() / parts * (complex ? 2 : 1)) << each.setup.text();
    for (std::size_t element = 0; element < x.size() / parts; ++element) {
      const std::complex<double> sample{x[parts * element], complex_input ? x[parts * element + 1] : 0.0F};
      const std::complex<double> product = sample * each.factor(element);
      const std::complex<double> got{y[element * (complex ? 2 : 1)], complex ? y[2 * element + 1] : 0.0F};
      ASSERT_LE(std::abs(got - product), 3e-7 * std::abs(sample) * std::abs(each.factor(element)) + 1e-38)
          << each.setup.text() << " at " << element << ": " << got << ", not " << product;
    }
  }
}

TEST_P(fold_operation, KeepsWhatIsNotFiniteToItsElementInAProductWithAConstant) {
  for (const bool by_channel : {false, true}) {
    constant_case each;
    each.setup = {.op = "multiply", .settings = {}, .input = {.type = element_type::f32, .shape = {3, 100}}};
    each.setup.extent.frames = 2;
    each.extents = by_channel ? std::vector<std::int64_t>{3, 1} : std::vector<std::int64_t>{100};
    each.by.assign(by_channel ? 3 : 100, 2.0);
    each.give_constant();
    std::vector<float> x(600, 1.0F);
    x[300] = std::numeric_limits<float>::quiet_NaN();
    x[417] = std::numeric_limits<float>::infinity();
    const auto y = run<float>(each.setup, x);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(std::isnan(y[i]), i == 300) << i;
      ASSERT_EQ(y[i] == 2.0F, i != 300 && i != 417) << i;
    }
  }
}

TEST(Multiply, RefusesAConstantThatDoesNotFit) {
  const tensor_spec rows{.type = element_type::f32, .shape = {4, 3, 10}, .variable = true};
  const auto refuse = [&](const entries& settings, const tensor_spec& input, const char* field, const char* message) {
    expect_refused("multiply", settings_of(settings), std::vector<tensor_spec>{input}, field, message);
  };
  using list = std::vector<double>;
  refuse({{"by", list{1, 2}}}, rows, "by", "is f32[2], whose extents must be 1 or the last ones of f32[max 4, 3, 10]");
  refuse({{"by", list{1, 2, 3, 4}}, {"by_shape", list{4, 1, 1}}}, rows, "by", "is f32[4, 1, 1]");
  refuse({{"by", list{1, 2, 3}}, {"by_shape", list{2, 1}}}, rows, "by_shape", "the 3 numbers");
  refuse({{"by", list{1, 2, 3}}, {"by_shape", list{1.5, 2}}}, rows, "by_shape", "whole numbers");
  refuse({{"by", list{1}}, {"by_imag", list{1, 2}}}, rows, "by_imag", "as many numbers as 'by', 1, not 2");
  refuse({{"by", list{1}}, {"conjugate", true}}, rows, "conjugate", "complex constant");
  refuse({{"by_shape", list{1}}}, rows, "by_shape", "that has 'by'");
  EXPECT_EQ(find_operator("multiply")
                ->infer(settings_of({{"by", list{1, 2, 3}}, {"by_shape", list{3, 1}}, {"by_imag", list{0, 0, 1}}}),
                        std::vector<tensor_spec>{rows}),
            (tensor_spec{.type = element_type::cf32, .shape = {4, 3, 10}, .variable = true}));
}

}  // namespace
}  // namespace penstock
