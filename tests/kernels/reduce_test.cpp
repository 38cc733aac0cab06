#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/along_axis.hpp"
#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class reduce_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(reduce_operation);

struct reduction {
  std::string function;
  element_type type;
  std::size_t axis;
};

operation_case reduce_of(const reduction& given, std::vector<std::int64_t> shape, bool variable = false) {
  operation_case setup{
      .op = "reduce", .settings = {}, .input = {.type = given.type, .shape = std::move(shape), .variable = variable}};
  setup.settings.set("function", given.function);
  setup.settings.set("axis", static_cast<std::int64_t>(given.axis));
  return setup;
}

/// A result by its definition in float64, and what its error is measured by.
struct expected_value {
  double value = 0.0;
  double level = 0.0;
};

expected_value reduced(const std::string& function, const std::vector<double>& row) {
  double sum = 0.0;
  double absolutes = 0.0;
  double squares = 0.0;
  double peak = 0.0;
  bool nan = false;
  for (const double value : row) {
    sum += value;
    absolutes += std::abs(value);
    squares += value * value;
    peak = std::max(peak, std::abs(value));
    nan = nan || std::isnan(value);
  }
  const auto n = static_cast<double>(row.size());
  if (function == "max" || function == "min") {
    const auto [least, most] = std::minmax_element(row.begin(), row.end());
    return {nan ? std::numeric_limits<double>::quiet_NaN() : function == "max" ? *most : *least, 0.0};
  }
  return function == "sum"     ? expected_value{sum, absolutes}
         : function == "mean"  ? expected_value{sum / n, peak}
         : function == "power" ? expected_value{squares / n, peak * peak}
                               : expected_value{std::sqrt(squares / n), peak};
}

/// Each result from [outer, length, inner] samples; complex ones give two where they are summed.
std::vector<expected_value> reductions(const reduction& given, const std::vector<float>& x, std::size_t outer,
                                       std::size_t length, std::size_t inner) {
  const std::size_t parts = is_complex(given.type) ? 2 : 1;
  const bool squares = given.function == "rms" || given.function == "power";
  std::vector<expected_value> all;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      std::vector<std::vector<double>> views(squares ? 1 : parts);
      for (std::size_t l = 0; l < length; ++l) {
        for (std::size_t part = 0; part < parts; ++part) {
          views[squares ? 0 : part].push_back(static_cast<double>(x[((o * length + l) * inner + i) * parts + part]));
        }
      }
      for (std::size_t view = 0; view < views.size(); ++view) {
        expected_value made = reduced(given.function, views[view]);
        if (squares && parts == 2) {
          made.value *= given.function == "rms" ? std::sqrt(2.0) : 2.0;
          made.level *= 2.0;
        }
        all.push_back(made);
      }
    }
  }
  return all;
}

reduction random_reduction(random_input& random) {
  static const std::vector<std::string> functions{"mean", "sum", "rms", "power", "max", "min"};
  const bool complex = random.coin();
  return {functions[static_cast<std::size_t>(random.integer(0, complex ? 3 : 5))],
          complex ? element_type::cf32 : element_type::f32, 0};
}

void expect_reduced(const std::vector<float>& y, const std::vector<expected_value>& expected,
                    const std::string& where) {
  ASSERT_EQ(y.size(), expected.size()) << where;
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], expected[i].value, 1e-6 * expected[i].level) << where << " at " << i;
  }
}

TEST_P(reduce_operation, MatchesTheDefinitionAlongAnyAxis) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 100; ++round) {
    reduction given = random_reduction(random);
    std::vector<std::int64_t> shape;
    for (std::int64_t axes = random.integer(1, 4); axes > 0; --axes) {
      shape.push_back(random.integer(1, random.coin() ? 4 : 12));
    }
    given.axis = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(shape.size()) - 1));
    shape[given.axis] = random.integer(1, 300);
    operation_case setup = reduce_of(given, shape, random.coin());
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    const axis_rows rows{setup.input, given.axis};
    const auto x = random.normal(values_in(setup.input, setup.extent), 0.3, std::pow(10.0, random.real(-15.0, 15.0)));
    const auto expected =
        reductions(given, x, static_cast<std::size_t>(rows.outer(setup.extent)),
                   static_cast<std::size_t>(rows.length(setup.extent)), static_cast<std::size_t>(rows.inner()));
    expect_reduced(run<float>(setup, x), expected, setup.text() + " " + given.function);
  }
}

TEST_P(reduce_operation, MatchesTheDefinitionForLongRows) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::int64_t inner : {1, 3, 64}) {
    for (int round = 0; round < 3; ++round) {
      const reduction given = random_reduction(random);
      const std::int64_t length = 100'003 / inner;
      const operation_case setup = reduce_of(given, {length, inner});
      const auto x = random.normal(values_in(setup.input, setup.extent), 1.0);
      expect_reduced(run<float>(setup, x),
                     reductions(given, x, 1, static_cast<std::size_t>(length), static_cast<std::size_t>(inner)),
                     setup.text() + " " + given.function);
    }
  }
}

// Neither squares nor sums leave the range in which they are added.
TEST_P(reduce_operation, KeepsEachRowToItself) {
  constexpr float far = 3e38F;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string function : {"mean", "sum", "rms", "power", "max", "min"}) {
    const std::vector<float> x{1e-4F, far, nan, 2e-4F, far, 1.0F};
    const operation_case setup = reduce_of({function, element_type::f32, 0}, {2, 3});
    const auto y = run<float>(setup, x);
    const auto expected = reductions({function, element_type::f32, 0}, x, 1, 2, 3);
    EXPECT_NEAR(y[0], expected[0].value, 1e-6 * expected[0].level) << function;
    EXPECT_TRUE(std::isnan(y[2])) << function;
    if (function == "rms" || function == "mean" || function == "max") {
      EXPECT_FLOAT_EQ(y[1], far) << function;
    }
  }
}

TEST(Reduce, TakesTheAxisOutOfTheShape) {
  const auto output = [](const reduction& given, const std::vector<std::int64_t>& shape, bool variable) {
    return reduce_of(given, shape, variable).output();
  };
  using enum element_type;
  EXPECT_EQ(output({"mean", cf32, 1}, {5, 6, 7}, true), (tensor_spec{.type = cf32, .shape = {5, 7}, .variable = true}));
  EXPECT_EQ(output({"power", cf32, 0}, {5, 6, 7}, true), (tensor_spec{.type = f32, .shape = {6, 7}}));
  EXPECT_EQ(output({"max", f32, 0}, {5}, true), (tensor_spec{.type = f32, .shape = {1}}));
}

TEST(Reduce, RefusesTheLargestOfComplexNumbers) {
  expect_refused("reduce", settings_of({{"function", std::string{"max"}}}), {{element_type::cf32, {5}}}, "function",
                 "\"power\" for cf32[5]; a 'magnitude' stage");
  expect_refused("reduce", settings_of({{"function", std::string{"median"}}}), {{element_type::f32, {5}}}, "function",
                 "\"rms\" or \"power\", not \"median\"");
  expect_refused("reduce", settings_of({{"axis", std::int64_t{1}}}), {{element_type::f32, {5}}}, "axis", "-1 to 0");
  expect_refused("reduce", {}, {{element_type::i16, {5}}}, "from", "takes f32 or cf32");
}

}  // namespace
}  // namespace penstock
