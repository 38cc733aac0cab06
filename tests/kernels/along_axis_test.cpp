#include <algorithm>
#include <numeric>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class along_axis : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(along_axis);

struct row_case {
  const char* op;
  entries settings;
  element_type type;
  bool keeps_axis;
};

const std::vector<row_case>& row_cases() {
  const std::vector<double> six{1.0, -2.0, 3.0, 0.5, 0.25, -4.0};
  static const std::vector<row_case> cases{
      {"correlate", {{"template", six}}, element_type::f32, true},
      {"correlate", {{"template", six}, {"templates", std::int64_t{2}}}, element_type::cf32, true},
      {"detect", {{"high", 1.0}, {"max_events", std::int64_t{4}}}, element_type::f32, false},
      {"detrend", {}, element_type::f32, true},
      {"detrend", {{"type", std::string{"constant"}}}, element_type::cf32, true},
      {"fft", {}, element_type::f32, true},
      {"fft", {{"shift", true}}, element_type::cf32, true},
      {"histogram", {}, element_type::f32, false},
      {"histogram", {}, element_type::ci8, false},
      {"ifft", {{"half", true}}, element_type::cf32, true},
      {"matmul", {{"repeatable", true}}, element_type::f32, true},
      {"moments", {}, element_type::f32, false},
      {"moments", {}, element_type::cf32, false},
      {"power_spectrum", {}, element_type::f32, true},
      {"power_spectrum", {{"scale", std::string{"db"}}}, element_type::cf32, true},
      {"top", {{"count", std::int64_t{3}}}, element_type::f32, false},
      {"window", {}, element_type::cf32, true}};
  return cases;
}

/// By definition: the sizes [outer, length, inner] with the last two exchanged.
template <class Element>
std::vector<Element> exchanged(const std::vector<Element>& values, std::size_t outer, std::size_t length,
                               std::size_t inner, std::size_t parts) {
  std::vector<Element> out;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) {
      for (std::size_t l = 0; l < length; ++l) {
        const auto first = values.begin() + static_cast<std::ptrdiff_t>(((o * length + l) * inner + i) * parts);
        out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(parts));
      }
    }
  }
  return out;
}

/// Values in a batch in front of an axis, along it and behind it.
struct axis_sizes {
  std::size_t outer = 1;
  std::size_t length = 1;
  std::size_t inner = 1;
};

axis_sizes sizes_of(const operation_case& setup, std::size_t axis) {
  axis_sizes made{.outer = static_cast<std::size_t>(setup.extent.frames)};
  for (std::size_t at = 0; at < setup.input.shape.size(); ++at) {
    const auto extent =
        static_cast<std::size_t>(at == 0 && setup.input.variable ? setup.extent.leading : setup.input.shape[at]);
    (at < axis ? made.outer : at == axis ? made.length : made.inner) *= extent;
  }
  return made;
}

TEST_P(along_axis, GivesEachRowWhatItGivesItAlongTheLastAxis) {
  random_input random;
  SCOPED_TRACE(random.trace());
  for (int round = 0; round < 60; ++round) {
    const row_case& each = row_cases()[static_cast<std::size_t>(round) % row_cases().size()];
    const auto axes = static_cast<std::size_t>(random.integer(2, 4));
    operation_case setup{
        .op = each.op, .settings = settings_of(each.settings), .input = {.type = each.type, .shape = {}}};
    for (std::size_t at = 0; at < axes; ++at) {
      setup.input.shape.push_back(random.integer(1, 6));
    }
    const auto axis = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(axes) - 1));
    const bool has_weights = each.op == std::string_view("matmul");
    const std::int64_t longest = has_weights || random.coin() ? 30 : 1200;
    setup.input.shape[axis] = random.integer(2, longest);
    if (random.coin() && axis + 1 < axes) {
      setup.input.shape.back() = random.integer(1, 70);
    }
    // Only what reduces an axis, and detrend, takes one of any length.
    setup.input.variable = random.coin() && (axis != 0 || !each.keeps_axis || each.op == std::string_view("detrend"));
    operation_case alone{.op = each.op,
                         .settings = settings_of(each.settings),
                         .input = {.type = each.type, .shape = {setup.input.shape[axis]}}};
    if (has_weights) {
      const parameters::value weights = npy_of({setup.input.shape[axis], 5});
      setup.settings.set("weights", weights);
      alone.settings.set("weights", weights);
    }
    setup.settings.set("axis", static_cast<std::int64_t>(axis) - (random.coin() ? static_cast<std::int64_t>(axes) : 0));
    setup.extent = random.extent(setup.input);
    setup.spare_frames = random.integer(0, 2);

    const axis_sizes sizes = sizes_of(setup, axis);
    const std::size_t parts = each.type == element_type::cf32 ? 2 : 1;
    const std::size_t rows = sizes.outer * sizes.inner;
    alone.input.shape = {static_cast<std::int64_t>(sizes.length)};
    alone.extent.frames = static_cast<std::int64_t>(rows);
    const std::size_t result_parts = is_complex(alone.output().type) ? 2 : 1;
    const auto compare = [&](const auto& got, const auto& by_row) {
      const std::size_t results = by_row.size() / rows;
      const auto expected =
          each.keeps_axis ? exchanged(by_row, sizes.outer, sizes.inner, results / result_parts, result_parts) : by_row;
      ASSERT_EQ(got.size(), expected.size()) << setup.text() << " axis " << axis;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto wanted = static_cast<double>(expected[i]);
        ASSERT_NEAR(static_cast<double>(got[i]), wanted, 1e-5 * std::max(1.0, std::abs(wanted)))
            << setup.text() << " axis " << axis << " value " << i;
      }
    };
    if (each.type == element_type::ci8) {
      const auto x = random.integers<std::uint16_t>(rows * sizes.length);
      compare(run<std::int32_t>(setup, x),
              run<std::int32_t>(alone, exchanged(x, sizes.outer, sizes.length, sizes.inner, 1)));
      continue;
    }
    const auto x = random.normal(rows * sizes.length * parts);
    const auto turned = exchanged(x, sizes.outer, sizes.length, sizes.inner, parts);
    if (each.op == std::string_view("histogram")) {
      compare(run<std::int32_t>(setup, x), run<std::int32_t>(alone, turned));
    } else {
      compare(run<float>(setup, x), run<float>(alone, turned));
    }
  }
}

TEST_P(along_axis, KeepsANotANumberToItsRow) {
  operation_case setup{.op = "power_spectrum",
                       .settings = settings_of({{"axis", std::int64_t{0}}}),
                       .input = {.type = element_type::f32, .shape = {15, 3}}};
  random_input random;
  SCOPED_TRACE(random.trace());
  auto x = random.normal(45);
  x[3 * 4 + 1] = std::numeric_limits<float>::quiet_NaN();
  const auto y = run<float>(setup, x);
  ASSERT_EQ(y.size(), 24U);
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(std::isfinite(y[i]), i % 3 != 1) << i;
  }
}

TEST(AlongAxis, PutsResultsInItsPlaceOrLast) {
  const tensor_spec cube{.type = element_type::cf32, .shape = {5, 64, 3}, .variable = true};
  const auto output = [&](const char* op, std::int64_t axis) {
    return find_operator(op)->infer(settings_of({{"axis", axis}}), std::span(&cube, 1));
  };
  EXPECT_EQ(output("power_spectrum", 1),
            (tensor_spec{.type = element_type::f32, .shape = {5, 64, 3}, .variable = true}));
  EXPECT_EQ(output("moments", 1), (tensor_spec{.type = element_type::f32, .shape = {5, 3, 3, 5}, .variable = true}));
  EXPECT_EQ(output("moments", 0), (tensor_spec{.type = element_type::f32, .shape = {64, 3, 3, 5}}));
  EXPECT_EQ(output("moments", -1), (tensor_spec{.type = element_type::f32, .shape = {5, 64, 3, 5}, .variable = true}));
}

TEST(AlongAxis, RefusesWhatIsNoAxisAndSaysWhichRowIsWrong) {
  const std::vector<tensor_spec> cube{{element_type::f32, {5, 1, 7}, true}};
  expect_refused("window", settings_of({{"axis", std::int64_t{3}}}), cube, "axis",
                 "must be an axis of f32[max 5, 1, 7], -3 to 2, not 3");
  expect_refused("moments", settings_of({{"axis", std::int64_t{-4}}}), cube, "axis", "not -4");
  expect_refused("window", settings_of({{"axis", 1.0}}), cube, "axis", "an integer");
  expect_refused("power_spectrum", settings_of({{"axis", std::int64_t{1}}}), cube, "from",
                 "at least 2 elements, not f32[1] along axis 1 of f32[max 5, 1, 7]");
  expect_refused("window", settings_of({{"axis", std::int64_t{0}}}), cube, "from", "fixed");
}

}  // namespace
}  // namespace penstock
