#include <array>
#include <numeric>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class concat_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(concat_operation);

constexpr std::array all_types{element_type::u8,  element_type::i8,  element_type::i16,
                               element_type::i32, element_type::f32, element_type::cf32,
                               element_type::cu8, element_type::ci8, element_type::ci16};

/// The output, element by element: where along the axis an element stands says which input it is from.
std::vector<unsigned char> concatenated(const operation_case& setup, std::size_t axis,
                                        const std::vector<std::vector<unsigned char>>& batches) {
  const std::vector<tensor_spec> inputs = setup.inputs();
  std::vector<std::int64_t> shape = inputs[0].shape;
  if (inputs[0].variable) {
    shape[0] = setup.extent.leading;
  }
  shape[axis] = 0;
  for (const tensor_spec& input : inputs) {
    shape[axis] += input.shape[axis];
  }
  const std::size_t item = size_of(inputs[0].type);
  const std::int64_t elements = std::accumulate(shape.begin(), shape.end(), setup.extent.frames, std::multiplies<>{});
  std::vector<unsigned char> out;
  for (std::int64_t element = 0; element < elements; ++element) {
    std::vector<std::int64_t> place(shape.size());
    std::int64_t left = element;
    for (std::size_t at = shape.size(); at-- > 0; left /= shape[at]) {
      place[at] = left % shape[at];
    }
    std::size_t from = 0;
    for (; place[axis] >= inputs[from].shape[axis]; ++from) {
      place[axis] -= inputs[from].shape[axis];
    }
    std::int64_t offset = left;
    for (std::size_t at = 0; at < shape.size(); ++at) {
      offset = offset * (at == axis ? inputs[from].shape[axis] : shape[at]) + place[at];
    }
    const auto first = batches[from].begin() + offset * static_cast<std::int64_t>(item);
    out.insert(out.end(), first, first + static_cast<std::int64_t>(item));
  }
  return out;
}

TEST_P(concat_operation, PutsTheInputsOneBehindTheOtherAlongAnyAxis) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 60; ++round) {
    const element_type type = all_types[static_cast<std::size_t>(random.integer(0, 8))];
    operation_case setup{.op = "concat", .settings = {}, .input = random.spec(type, 1, 40)};
    const auto axes = static_cast<std::int64_t>(setup.input.shape.size());
    setup.input.variable = setup.input.variable && axes > 1;
    const std::int64_t axis = random.integer(setup.input.variable ? 1 : 0, axes - 1);
    setup.settings.set("axis", random.coin() ? axis : axis - axes);
    for (std::int64_t further = random.integer(1, 4); further > 0; --further) {
      setup.further_inputs.push_back(setup.input);
      setup.further_inputs.back().shape[static_cast<std::size_t>(axis)] = random.integer(1, 20);
    }
    setup.extent = random.extent(setup.input);
    std::vector<std::vector<unsigned char>> batches;
    for (const tensor_spec& input : setup.inputs()) {
      batches.push_back(random.integers<unsigned char>(static_cast<std::size_t>(setup.extent.frames) *
                                                       input.bytes(setup.extent.leading)));
    }
    const auto y = run<unsigned char>(setup, batches);
    ASSERT_EQ(y, concatenated(setup, static_cast<std::size_t>(axis), batches)) << setup.text() << " axis " << axis;
  }
}

TEST_P(concat_operation, IsAlongTheFirstAxisByDefault) {
  operation_case setup{.op = "concat", .settings = {}, .input = {.type = element_type::f32, .shape = {1, 2}}};
  setup.further_inputs.push_back({.type = element_type::f32, .shape = {2, 2}});
  const std::vector<std::vector<float>> x{{1, 2}, {3, 4, 5, 6}};
  EXPECT_EQ(run<float>(setup, x), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_P(concat_operation, TakesAMillionElements) {
  random_input random;
  SCOPED_TRACE(random.trace());
  operation_case setup{.op = "concat", .settings = {}, .input = {.type = element_type::i16, .shape = {1'000'001}}};
  setup.further_inputs.push_back({.type = element_type::i16, .shape = {99}});
  setup.extent.frames = 2;
  const std::vector<std::vector<std::int16_t>> x{random.integers<std::int16_t>(2'000'002),
                                                 random.integers<std::int16_t>(198)};
  std::vector<std::int16_t> expected;
  for (const std::ptrdiff_t frame : {0, 1}) {
    expected.insert(expected.end(), x[0].begin() + frame * 1'000'001, x[0].begin() + (frame + 1) * 1'000'001);
    expected.insert(expected.end(), x[1].begin() + frame * 99, x[1].begin() + (frame + 1) * 99);
  }
  EXPECT_TRUE(run<std::int16_t>(setup, x) == expected);
}

}  // namespace
}  // namespace penstock
