#include <algorithm>
#include <numeric>
#include <optional>

#include "tests/kernels/operation_test.hpp"
#include "tests/kernels/random_input.hpp"

namespace penstock {
namespace {

class along_axis : public operation_test {};
PENSTOCK_ON_EACH_BACKEND(along_axis);

constexpr std::int64_t word_bits = 6;

struct row_case {
  const char* op;
  entries settings;
  element_type type;
  bool keeps_axis;
};

const std::vector<row_case>& row_cases() {
  const std::vector<double> six{1.0, -2.0, 3.0, 0.5, 0.25, -4.0};
  static const std::vector<row_case> cases{
      {"bch",
       {{"generator", std::int64_t{3}}, {"length", word_bits}, {"errors", std::int64_t{0}}},
       element_type::f32,
       true},
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
    setup.input.shape[axis] =
        each.op == std::string_view("bch") ? word_bits * random.integer(1, 50) : random.integer(2, longest);
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

class along_session : public session_test {};
PENSTOCK_ON_EACH_BACKEND(along_session);

struct step_case {
  const char* op;
  entries settings;
  element_type type;
  std::int64_t unit = 1;               ///< of whose multiples the steps of a frame are
  std::optional<std::int64_t> bins{};  ///< along the last axis
};

const std::vector<step_case>& step_cases() {
  using list = std::vector<double>;
  using std::string_literals::operator""s;
  const std::int64_t three = 3;
  const std::int64_t four = 4;
  const std::int64_t eight = 8;
  const std::int64_t sixteen = 16;
  const list taps{0.5, -1.0, 0.25, 0.125, 2.0, -0.5, 0.75};
  static const std::vector<step_case> cases{
      {"accumulate", {{"frames", three}, {"along", "rows"s}}, element_type::f32},
      {"accumulate", {{"frames", eight}, {"along", "rows"s}, {"every", four}, {"kind", "peak"s}}, element_type::f32, 4},
      {"channelize", {{"channels", four}}, element_type::cf32, 4},
      {"channelize", {{"channels", eight}, {"hop", four}}, element_type::f32, 4},
      {"clock", {{"omega", 3.3}}, element_type::f32},
      {"demodulate", {{"kind", "fm"s}}, element_type::cf32},
      {"demodulate", {{"kind", "pm"s}, {"gain", 0.5}}, element_type::cf32},
      {"detect", {{"high", 1.0}, {"max_events", four}, {"along", "session"s}, {"gap", three}}, element_type::f32},
      {"fir", {{"taps", taps}}, element_type::f32},
      {"fir", {{"taps", taps}, {"decimation", three}}, element_type::cf32, 3},
      {"fir", {{"taps", list(150, 0.01)}, {"decimation", four}}, element_type::f32, 4},
      {"iir", {{"sections", list{1.0, 0.5, 0.0, 1.0, -0.9, 0.3}}}, element_type::f32},
      {"iir", {{"sections", list{1.0, 0.5, 0.0, 1.0, -0.9, 0.3}}}, element_type::cf32},
      {"istft", {{"hop", four}}, element_type::cf32, 1, 9},
      {"mix", {{"frequency", 0.1}, {"phase", 0.3}}, element_type::f32},
      {"mix", {{"frequency", -0.27}}, element_type::cf32},
      {"moving_zscore", {{"window", eight}}, element_type::f32},
      {"moving_zscore", {{"window", eight}, {"gap", three}, {"hold", 2.0}, {"output", "flags"s}}, element_type::f32},
      {"reframe", {{"length", four}}, element_type::u8, 4},
      {"reframe", {{"length", four}}, element_type::ci8, 4},
      {"reframe", {{"length", eight}, {"hop", four}, {"padding", four}}, element_type::f32, 4},
      {"reframe", {{"length", three}}, element_type::f64, 3},
      {"resample", {{"up", three}, {"down", four}}, element_type::f32, 4},
      {"resample", {{"up", four}, {"down", three}}, element_type::cf32, 3},
      {"stft", {{"length", sixteen}, {"hop", four}, {"padding", std::int64_t{12}}}, element_type::f32, 4},
      {"stft", {{"length", eight}, {"hop", four}, {"padding", four}}, element_type::cf32, 4}};
  return cases;
}

using byte_signals = std::vector<std::vector<std::byte>>;

/// Normal samples, or any bytes of integers.
std::vector<std::byte> samples_of(random_input& random, element_type type, std::size_t count) {
  std::vector<std::byte> made(count * size_of(type));
  const auto fill = [&made](const auto& values) { std::memcpy(made.data(), values.data(), made.size()); };
  if (type == element_type::f32 || type == element_type::cf32) {
    fill(random.normal(made.size() / sizeof(float)));
  } else {
    fill(random.integers<std::uint8_t>(made.size()));
  }
  return made;
}

template <class Element>
void expect_near(const std::vector<std::byte>& got, const std::vector<std::byte>& expected, const std::string& where) {
  std::vector<Element> values(got.size() / sizeof(Element));
  std::vector<Element> wanted(values.size());
  std::memcpy(values.data(), got.data(), got.size());
  std::memcpy(wanted.data(), expected.data(), got.size());
  Element peak = 1;
  for (const Element value : wanted) {
    peak = std::max(peak, std::abs(value));
  }
  for (std::size_t at = 0; at < values.size(); ++at) {
    ASSERT_NEAR(values[at], wanted[at], peak * Element(1e-5)) << where << ", value " << at;
  }
}

/// The same sessions with time first, cut at random, where an operator's results do not depend on that.
TEST_P(along_session, GivesWhatItGivesWithTimeFirst) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const std::vector<std::vector<std::int64_t>> before{{1}, {64}, {5}, {2, 3}, {64}};
  const std::vector<std::vector<std::int64_t>> behind{{}, {}, {3}, {}, {1}};
  for (std::size_t round = 0; round < 3 * step_cases().size(); ++round) {
    const step_case& each = step_cases()[round % step_cases().size()];
    const auto shape = static_cast<std::size_t>(random.integer(0, 4));
    session_case planar{.op = each.op,
                        .settings = settings_of(each.settings),
                        .input = {.type = each.type, .shape = before[shape]},
                        .seed = static_cast<std::uint64_t>(random.integer(1, 1 << 30))};
    const std::size_t axis = before[shape].size();
    const std::int64_t steps = each.unit * random.integer(1, random.coin() ? 4 : 40);
    std::vector<std::int64_t>& extents = planar.input.shape;
    extents.push_back(steps);
    extents.insert(extents.end(), behind[shape].begin(), behind[shape].end());
    if (each.bins) {
      extents.push_back(*each.bins);
    }
    session_case first = planar;
    first.input.shape.erase(first.input.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    first.input.shape.insert(first.input.shape.begin(), steps);
    planar.settings.set(
        "axis", static_cast<std::int64_t>(axis) - (random.coin() ? static_cast<std::int64_t>(extents.size()) : 0));
    const session_traits traits = planar.traits();
    ASSERT_EQ(traits.axis, axis);
    if (!traits.frame_results) {
      first.input.variable = true;
      first.input.shape.front() = random.integer(1, 2 * steps);
    }
    first.seed = planar.seed + (traits.frame_results ? 0 : 1);

    const auto outer = static_cast<std::size_t>(
        std::accumulate(before[shape].begin(), before[shape].end(), std::int64_t{1}, std::multiplies<>{}));
    const std::size_t frame = planar.input.bytes();
    const std::size_t inner = frame / outer / static_cast<std::size_t>(steps);
    byte_signals signals;
    byte_signals turned;
    std::vector<std::size_t> frames;
    for (int session = 0; session < 3; ++session) {
      frames.push_back(static_cast<std::size_t>(random.integer(1, 7)));
      signals.push_back(samples_of(random, each.type, frames.back() * frame / size_of(each.type)));
      turned.push_back(exchanged(signals.back(), frames.back(), outer, static_cast<std::size_t>(steps), inner));
    }
    const byte_signals got = runner().run(planar, signals);
    const byte_signals wanted = runner().run(first, turned);
    for (std::size_t session = 0; session < got.size(); ++session) {
      const std::string where = planar.text() + ", axis " + std::to_string(axis) + ", " + std::to_string(steps) +
                                " steps, session " + std::to_string(session);
      ASSERT_EQ(got[session].size(), wanted[session].size()) << where;
      std::vector<std::byte> values = got[session];
      if (!traits.frame_results) {
        // Behind the channels before time come its steps: all of a frame, or rows of them.
        const std::size_t made = planar.output().bytes();
        const auto time =
            static_cast<std::size_t>(planar.output().shape[axis] *
                                     (each.op == std::string_view("reframe") ? planar.output().shape[axis + 1] : 1));
        values = exchanged(values, frames[session], outer, time, made / outer / time);
      }
      switch (planar.output().type) {
        case element_type::f32:
        case element_type::cf32:
          expect_near<float>(values, wanted[session], where);
          break;
        default:
          ASSERT_EQ(values, wanted[session]) << where;
      }
    }
  }
}

TEST_P(along_session, TakesTheNumbersOfEachFrame) {
  random_input random;
  SCOPED_TRACE(random.trace());
  const auto frequency = [](std::size_t session, std::int64_t step) {
    return std::vector{0.01 * static_cast<double>(session + 1) + 0.001 * static_cast<double>(step / 12 % 5)};
  };
  session_case planar{.op = "mix",
                      .settings = settings_of({{"frequency", 0.1}, {"axis", std::int64_t{-1}}}),
                      .input = {.type = element_type::f32, .shape = {7, 12}},
                      .numbers = frequency};
  session_case first{.op = "mix",
                     .settings = settings_of({{"frequency", 0.1}}),
                     .input = {.type = element_type::f32, .shape = {12, 7}},
                     .numbers = frequency};
  session_signals signals;
  session_signals turned;
  for (int session = 0; session < 3; ++session) {
    signals.push_back(random.normal(std::size_t{10} * 7 * 12));
    turned.push_back(exchanged(signals.back(), 10, 7, 12, 1));
  }
  const auto got = run<float>(planar, signals);
  const auto wanted = run<float>(first, turned);
  for (std::size_t session = 0; session < got.size(); ++session) {
    EXPECT_EQ(exchanged(got[session], 10, 7, 12, 2), wanted[session]) << session;
  }
}

TEST(AlongSession, PutsTimeInItsPlaceAndRowsOfStepsBehindIt) {
  const tensor_spec cube{.type = element_type::f32, .shape = {2, 96, 3}};
  const auto output = [&](const char* op, entries settings) {
    settings.emplace_back("axis", std::int64_t{1});
    return find_operator(op)->infer(settings_of(settings), std::span(&cube, 1));
  };
  const std::int64_t eight = 8;
  const std::string rows = "rows";
  const std::string session = "session";
  EXPECT_EQ(output("fir", {{"taps", std::vector<double>{1.0}}, {"decimation", eight}}).shape,
            (std::vector<std::int64_t>{2, 12, 3}));
  EXPECT_EQ(output("reframe", {{"length", eight}}).shape, (std::vector<std::int64_t>{2, 12, 8, 3}));
  EXPECT_EQ(output("stft", {{"length", eight}, {"hop", eight}}).shape, (std::vector<std::int64_t>{2, 12, 3, 5}));
  EXPECT_EQ(output("channelize", {{"channels", eight}}).shape, (std::vector<std::int64_t>{2, 12, 3, 8}));
  EXPECT_EQ(output("detect", {{"high", 1.0}, {"max_events", eight}, {"along", session}}).shape,
            (std::vector<std::int64_t>{2, 3, 9, 4}));
  EXPECT_EQ(output("detect", {{"high", 1.0}, {"max_events", eight}}).shape, (std::vector<std::int64_t>{2, 3, 9, 2}));
  const tensor_spec spectra{.type = element_type::cf32, .shape = {2, 12, 5}};
  EXPECT_EQ(find_operator("istft")
                ->infer(settings_of({{"axis", std::int64_t{1}}, {"hop", std::int64_t{4}}}), std::span(&spectra, 1))
                .shape,
            (std::vector<std::int64_t>{2, 48}));
}

TEST(AlongSession, RefusesWhatCannotBeTimeAndSaysWhatToDo) {
  const parameters fir = settings_of({{"taps", std::vector<double>{1.0}}, {"axis", std::int64_t{1}}});
  expect_refused("fir", fir, {{element_type::f32, {4096, 8}, true}}, "axis",
                 "must be 0 for f32[max 4096, 8]: of frames of any length time is the first dimension");
  expect_refused("fir", fir, {{element_type::f32, {8}}}, "axis", "must be an axis of f32[8], -1 to 0, not 1");
  parameters decimated = fir;
  decimated.set("decimation", std::int64_t{3});
  expect_refused("fir", decimated, {{element_type::f32, {8, 100}}}, "decimation",
                 "must divide the 100 steps of f32[8, 100] along axis 1");
  expect_refused("accumulate", settings_of({{"frames", std::int64_t{3}}, {"axis", std::int64_t{1}}}),
                 {{element_type::f32, {8, 100}}}, "axis", "is for along = \"rows\"");
  expect_refused("istft", settings_of({{"axis", std::int64_t{-1}}}), {{element_type::cf32, {8, 9}}}, "axis",
                 "can't be the last one");
  try {
    static_cast<void>(find_operator("fir")->infer(decimated, std::vector{tensor_spec{element_type::f32, {8, 100}}}));
    ADD_FAILURE() << "100 steps are no multiple of 3";
  } catch (const parameter_error& error) {
    EXPECT_THAT(error.what(), testing::EndsWith("use frames of a multiple of it")) << "\"max N\" would be refused";
  }
}

TEST(AlongSession, TakesAnyAxisWhereNoStateIsKept) {
  const tensor_spec variable{.type = element_type::cf32, .shape = {4096, 8}, .variable = true};
  const parameters am = settings_of({{"kind", std::string{"am"}}, {"axis", std::int64_t{1}}});
  EXPECT_EQ(find_operator("demodulate")->infer(am, std::span(&variable, 1)).shape, variable.shape);
  EXPECT_FALSE(find_operator("demodulate")->session(am, std::span(&variable, 1)).has_value());
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
