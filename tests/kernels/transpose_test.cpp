#include <algorithm>
#include <array>
#include <numeric>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class transpose_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(transpose_operation);

constexpr std::array transposed_types{element_type::u8,   element_type::ci8,  element_type::i16, element_type::f32,
                                      element_type::cf32, element_type::ci16, element_type::f64};

operation_case transpose_of(const tensor_spec& input, const std::vector<std::int64_t>& axes) {
  operation_case setup{.op = "transpose", .settings = {}, .input = input};
  setup.settings.set("axes", std::vector<double>(axes.begin(), axes.end()));
  return setup;
}

/// Element by element: where one stands in the output says where in the input it is from.
std::vector<std::uint8_t> transposed(const operation_case& setup, const std::vector<std::size_t>& order,
                                     const std::vector<std::uint8_t>& batch) {
  std::vector<std::int64_t> shape = setup.input.shape;
  if (setup.input.variable) {
    shape[0] = setup.extent.leading;
  }
  const std::int64_t elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
  const auto item = static_cast<std::int64_t>(size_of(setup.input.type));
  std::vector<std::uint8_t> out;
  for (std::int64_t element = 0; element < setup.extent.frames * elements; ++element) {
    std::vector<std::int64_t> place(shape.size());
    std::int64_t left = element % elements;
    for (std::size_t at = shape.size(); at-- > 0;) {
      place[order[at]] = left % shape[order[at]];
      left /= shape[order[at]];
    }
    std::int64_t offset = element / elements;
    for (std::size_t at = 0; at < shape.size(); ++at) {
      offset = offset * shape[at] + place[at];
    }
    out.insert(out.end(), batch.begin() + offset * item, batch.begin() + (offset + 1) * item);
  }
  return out;
}

void set_random_shape(random_input& random, tensor_spec& input, std::size_t axes) {
  const std::int64_t most = axes == 1 ? 3000 : axes == 2 ? 150 : axes == 3 ? 40 : 9;
  input.shape.clear();
  for (std::size_t at = 0; at < axes; ++at) {
    input.shape.push_back(random.coin() ? random.integer(1, most) : random.integer(1, 4));
  }
}

TEST_P(transpose_operation, PutsTheAxesInAnyOrder) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 120; ++round) {
    const auto axes = static_cast<std::size_t>(random.integer(1, 6));
    tensor_spec input{
        .type = transposed_types[static_cast<std::size_t>(random.integer(0, transposed_types.size() - 1))],
        .shape = {},
        .variable = random.coin()};
    set_random_shape(random, input, axes);
    std::vector<std::size_t> order(axes);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t at = axes - 1; at > 0; --at) {
      const auto least = input.variable ? std::int64_t{1} : std::int64_t{0};
      std::swap(order[at], order[static_cast<std::size_t>(random.integer(least, static_cast<std::int64_t>(at)))]);
    }
    std::vector<std::int64_t> given(order.begin(), order.end());
    for (std::int64_t& axis : given) {
      axis -= random.coin() ? static_cast<std::int64_t>(axes) : 0;
    }
    operation_case setup = transpose_of(input, given);
    setup.extent = random.extent(input);
    setup.spare_frames = random.integer(0, 3);
    const auto batch = random.integers<std::uint8_t>(static_cast<std::size_t>(setup.extent.frames) *
                                                     input.bytes(setup.extent.leading));
    ASSERT_TRUE(run<std::uint8_t>(setup, batch) == transposed(setup, order, batch)) << setup.text();
  }
}

TEST_P(transpose_operation, TurnsLargeMatricesOfEachElementSize) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (const element_type type : {element_type::u8, element_type::i16, element_type::f32, element_type::cf32}) {
    for (const std::array<std::int64_t, 2> shape : {std::array<std::int64_t, 2>{1021, 257}, {64, 1024}, {3, 10'001}}) {
      operation_case setup = transpose_of({.type = type, .shape = {shape[0], shape[1]}}, {1, 0});
      setup.extent.frames = 3;
      const auto batch = random.integers<std::uint8_t>(3 * setup.input.bytes());
      ASSERT_TRUE(run<std::uint8_t>(setup, batch) == transposed(setup, {1, 0}, batch)) << setup.text();
    }
  }
}

TEST_P(transpose_operation, ReversesTheAxesByDefault) {
  const operation_case setup{.op = "transpose", .settings = {}, .input = {.type = element_type::f32, .shape = {3, 2}}};
  EXPECT_EQ(run<float>(setup, std::vector<float>{1, 2, 3, 4, 5, 6}), (std::vector<float>{1, 3, 5, 2, 4, 6}));
}

TEST(Transpose, SaysWhatTheAxesOfItsOutputAre) {
  const tensor_spec input{.type = element_type::u16, .shape = {5, 6, 7}, .variable = true};
  EXPECT_EQ(transpose_of(input, {0, 2, -2}).output(),
            (tensor_spec{.type = element_type::u16, .shape = {5, 7, 6}, .variable = true}));
}

TEST(Transpose, RefusesWhatIsNoOrderOfTheAxes) {
  const std::vector<tensor_spec> cube{{element_type::f32, {5, 6, 7}}};
  for (const std::vector<double>& axes : std::vector<std::vector<double>>{
           {}, {0, 1}, {0, 1, 1}, {0, 1, 3}, {0, 1, -4}, {0, 1, 1.5}, {0, 1, -1, 2}, {0, 2, -1}}) {
    expect_refused("transpose", settings_of({{"axes", axes}}), cube, "axes",
                   "must have each of the 3 axes of f32[5, 6, 7] once");
  }
  expect_refused("transpose", {}, {{element_type::f32, {5, 6}, true}}, "axes", "\"max N\" of f32[max 5, 6] first");
}

}  // namespace
}  // namespace penstock
