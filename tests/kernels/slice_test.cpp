#include <array>

#include "kernels/along_axis.hpp"
#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class slice_operation : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(slice_operation);

constexpr std::array some_types{element_type::u8, element_type::i16, element_type::f32, element_type::cf32};

TEST_P(slice_operation, KeepsTheRangeOfAnyAxis) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 100; ++round) {
    tensor_spec input = random.spec(some_types[static_cast<std::size_t>(random.integer(0, 3))], 1, 200);
    input.variable = input.variable && input.shape.size() > 1;
    const auto axes = static_cast<std::int64_t>(input.shape.size());
    const std::int64_t axis = random.integer(input.variable ? 1 : 0, axes - 1);
    const std::int64_t extent = input.shape[static_cast<std::size_t>(axis)];
    const std::int64_t start = random.integer(0, extent - 1);
    const std::int64_t stop = random.integer(start + 1, extent);
    const std::int64_t step = random.integer(1, random.coin() ? 1 : 5);
    const bool one = random.coin();
    operation_case setup{.op = "slice", .settings = {}, .input = input};
    setup.settings.set("axis", random.coin() ? axis : axis - axes);
    setup.settings.set(one ? "index" : "start", random.coin() ? start : start - extent);
    if (stop < extent && !one) {
      setup.settings.set("stop", random.coin() ? stop : stop - extent);
    }
    if (!one) {
      setup.settings.set("step", step);
    }
    setup.extent = random.extent(input);
    const auto x = random.integers<std::uint8_t>(static_cast<std::size_t>(setup.extent.frames) *
                                                 input.bytes(setup.extent.leading));
    const axis_rows rows{input, static_cast<std::size_t>(axis)};
    const std::int64_t run_bytes = rows.inner() * static_cast<std::int64_t>(size_of(input.type));
    std::vector<std::uint8_t> expected;
    for (std::int64_t outer = 0; outer < rows.outer(setup.extent); ++outer) {
      for (std::int64_t index = start; index < (one ? start + 1 : stop); index += step) {
        const auto first = x.begin() + (outer * extent + index) * run_bytes;
        expected.insert(expected.end(), first, first + run_bytes);
      }
    }
    ASSERT_TRUE(run<std::uint8_t>(setup, x) == expected) << setup.text() << " axis " << axis << " " << start
                                                         << (one ? " alone, not " : "") << ":" << stop << ":" << step;
  }
}

TEST_P(slice_operation, TakesAllByDefault) {
  const operation_case setup{.op = "slice", .settings = {}, .input = {.type = element_type::f32, .shape = {2, 2}}};
  EXPECT_EQ(run<float>(setup, std::vector<float>{1, 2, 3, 4}), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Slice, LeavesOutTheAxisOfOneIndex) {
  const auto index = [](std::int64_t number) { return settings_of({{"index", parameters::value(number)}}); };
  const auto output = [](const parameters& settings, const tensor_spec& input) {
    return find_operator("slice")->infer(settings, std::span{&input, 1});
  };
  EXPECT_EQ(output(index(3), {element_type::cu8, {9, 4}, true}), (tensor_spec{element_type::cu8, {9}, true}));
  EXPECT_EQ(output(index(-9), {element_type::f32, {9}}), (tensor_spec{element_type::f32, {1}}));
  parameters first = index(0);
  first.set("axis", std::int64_t{0});
  EXPECT_EQ(output(first, {element_type::i16, {9, 4}}), (tensor_spec{element_type::i16, {4}}));
}

TEST(Slice, RefusesWhatIsNoRangeOfTheAxis) {
  const std::vector<tensor_spec> input{{element_type::u16, {9, 4}, true}};
  const auto at = [](std::int64_t number) { return parameters::value(number); };
  expect_refused("slice", settings_of({{"axis", at(0)}}), input, "axis", "behind the leading \"max N\"");
  expect_refused("slice", settings_of({{"axis", at(2)}}), input, "axis", "-2 to 1, not 2");
  expect_refused("slice", settings_of({{"start", at(5)}}), input, "start", "from -4 to 4, not 5");
  expect_refused("slice", settings_of({{"stop", at(-5)}}), input, "stop", "from -4 to 4, not -5");
  expect_refused("slice", settings_of({{"start", at(4)}}), input, "stop", "must be behind 'start', 4, not 4");
  expect_refused("slice", settings_of({{"start", at(-1)}, {"stop", at(1)}}), input, "stop", "3, not 1");
  expect_refused("slice", settings_of({{"step", at(0)}}), input, "step", "from 1 to");
  expect_refused("slice", settings_of({{"index", at(4)}}), input, "index", "from -4 to 3, not 4");
  expect_refused("slice", settings_of({{"index", at(-5)}}), input, "index", "from -4 to 3, not -5");
  expect_refused("slice", settings_of({{"index", at(0)}, {"axis", at(0)}}), input, "axis", "behind the leading");
  for (const char* const key : {"start", "stop", "step"}) {
    expect_refused("slice", settings_of({{"index", at(1)}, {key, at(1)}}), input, key, "leave out one of them");
  }
}

}  // namespace
}  // namespace penstock
