#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class top_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(top_operation);

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// By a stable sort of what is not NaN.
std::vector<float> listed(const std::vector<float>& x, std::size_t length, std::size_t count, bool smallest) {
  std::vector<float> out;
  for (std::size_t first = 0; first < x.size(); first += length) {
    std::vector<std::size_t> order;
    for (std::size_t at = 0; at < length; ++at) {
      if (!std::isnan(x[first + at])) {
        order.push_back(at);
      }
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return smallest ? x[first + a] < x[first + b] : x[first + a] > x[first + b];
    });
    for (std::size_t place = 0; place < count; ++place) {
      out.push_back(place < order.size() ? static_cast<float>(order[place]) : -1.0F);
      out.push_back(place < order.size() ? x[first + order[place]] : 0.0F);
    }
  }
  return out;
}

operation_case top_of(const tensor_spec& input, std::size_t count, bool smallest = false) {
  operation_case setup{.op = "top", .settings = {}, .input = input};
  setup.settings.set("count", static_cast<std::int64_t>(count));
  setup.settings.set("smallest", smallest);
  return setup;
}

TEST_P(top_operation, ListsTheLargestAndTheSmallest) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 80; ++round) {
    const auto count = static_cast<std::size_t>(random.coin() ? 1 : random.integer(1, 40));
    const bool smallest = random.coin();
    operation_case setup = top_of(random.spec(element_type::f32, 1, random.coin() ? 30 : 2000), count, smallest);
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 3);
    auto x = random.normal(values_in(setup.input, setup.extent));
    for (float& value : x) {
      // Many are equal.
      value = random.integer(0, 9) == 0 ? nan : random.coin() ? std::round(value) : value;
    }
    const std::int64_t length =
        setup.input.variable && setup.input.shape.size() == 1 ? setup.extent.leading : setup.input.shape.back();
    ASSERT_EQ(run<float>(setup, x), listed(x, static_cast<std::size_t>(length), count, smallest)) << setup.text();
  }
}

TEST_P(top_operation, ListsTheLargestOfLongRows) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const std::size_t count : {1U, 3U, 300U}) {
    operation_case setup = top_of({.type = element_type::f32, .shape = {70'001}}, count);
    setup.extent.frames = 2;
    const auto x = random.normal(values_in(setup.input, setup.extent));
    ASSERT_TRUE(run<float>(setup, x) == listed(x, 70'001, count, false)) << setup.text();
  }
}

TEST_P(top_operation, TakesInfinitiesAndZerosOfBothSignsAndNoNan) {
  const std::vector<float> row{nan, -0.0F, -infinity, 0.0F, nan, infinity, -1.0F};
  const tensor_spec input{.type = element_type::f32, .shape = {7}};
  EXPECT_EQ(run<float>(top_of(input, 6), row),
            (std::vector<float>{5, infinity, 1, -0.0F, 3, 0.0F, 6, -1, 2, -infinity, -1, 0}));
  EXPECT_EQ(run<float>(top_of(input, 2, true), row), (std::vector<float>{2, -infinity, 6, -1}));
  EXPECT_EQ(run<float>(top_of(input, 1), std::vector<float>(7, nan)), (std::vector<float>{-1, 0}));
}

TEST(Top, ListsEachRowAlongItsAxisLast) {
  const auto output = [](const entries& settings, const tensor_spec& input) {
    return find_operator("top")->infer(settings_of(settings), std::span(&input, 1));
  };
  const tensor_spec input{.type = element_type::f32, .shape = {8, 5}, .variable = true};
  EXPECT_EQ(output({}, input), (tensor_spec{.type = element_type::f32, .shape = {8, 1, 2}, .variable = true}));
  EXPECT_EQ(output({{"count", std::int64_t{3}}, {"axis", std::int64_t{0}}}, input),
            (tensor_spec{.type = element_type::f32, .shape = {5, 3, 2}}));
}

TEST(Top, RefusesNoneTooManyAndRowsTooLong) {
  const std::vector<tensor_spec> row{{element_type::f32, {9}}};
  expect_refused("top", settings_of({{"count", std::int64_t{0}}}), row, "count", "from 1 to 1024, not 0");
  expect_refused("top", settings_of({{"count", std::int64_t{1025}}}), row, "count", "not 1025");
  expect_refused("top", {}, {{element_type::cf32, {9}}}, "from", "takes f32, not cf32[9]");
  expect_refused("top", {}, {{element_type::f32, {(1 << 24) + 1}}}, "from", "16777216");
}

}  // namespace
}  // namespace penstock
