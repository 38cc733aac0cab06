#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/operation.hpp"
#include "tests/kernels/operator_sample.hpp"

namespace penstock {
namespace {

using enum element_type;
using list = std::vector<double>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Catalogue, IsSortedByName) {
  const std::span<const operator_definition> all = operator_catalogue();
  EXPECT_TRUE(std::is_sorted(
      all.begin(), all.end(),
      [](const operator_definition& one, const operator_definition& next) { return one.name < next.name; }));
}

TEST(Catalogue, FindsEachOperatorThatItLists) {
  for (const operator_definition& known : operator_catalogue()) {
    EXPECT_EQ(find_operator(known.name), &known);
  }
}

TEST(Catalogue, FindsNoOther) {
  EXPECT_EQ(find_operator(""), nullptr);
  EXPECT_EQ(find_operator("dft"), nullptr);
  EXPECT_EQ(find_operator("Convert"), nullptr);
}

TEST(Catalogue, GivesUsersNoParameterThatTheDaemonAdds) {
  const std::span<const std::string_view> known = find_operator("kernel")->keys;
  for (const std::string_view added : {"code", "symbol", "warnings"}) {
    EXPECT_EQ(std::find(known.begin(), known.end(), added), known.end()) << added;
  }
}

TEST(Catalogue, MakesAHostOperationOfEachOperator) {
  for (const operator_definition& known : operator_catalogue()) {
    const operator_sample sample = sample_of(known.name);
    const std::vector<tensor_spec> inputs(sample.inputs, {.type = sample.type, .shape = {2, 8}});
    EXPECT_NE(known.make_host({.settings = sample.settings, .inputs = inputs, .max_frames = 2}), nullptr) << known.name;
  }
}

TEST(Catalogue, TellsWhichOperatorsKeepAState) {
  for (const operator_definition& known : operator_catalogue()) {
    const operator_sample sample = sample_of(known.name);
    const std::vector<tensor_spec> inputs(sample.inputs, {.type = sample.type, .shape = {2, 8}});
    const auto made = known.make_host({.settings = sample.settings, .inputs = inputs, .max_frames = 2});
    const bool keeps = known.session != nullptr && known.session(sample.settings, inputs).has_value();
    EXPECT_EQ(made->state_bytes() > 0, keeps) << known.name;
  }
}

// docs/pipelines.md, "Which samples a result is of", says of each where its results stand. sample_account_test sends
// impulses through those whose delay is known.
TEST(Catalogue, TellsOfEachOperatorWithStateWhereItsResultsStand) {
  std::set<std::string_view> with_state;
  for (const operator_definition& known : operator_catalogue()) {
    if (known.session != nullptr) {
      with_state.insert(known.name);
    }
  }
  const std::set<std::string_view> told{"accumulate",    "channelize", "clock",    "demodulate", "detect",
                                        "fir",           "frame_sync", "iir",      "istft",      "mix",
                                        "moving_zscore", "reframe",    "resample", "stft"};
  EXPECT_EQ(with_state, told);
}

struct shape_row {
  const char* op;
  entries settings;
  std::vector<tensor_spec> inputs;
  tensor_spec output;
};

std::vector<shape_row> shapes() {
  const std::string same = "same";
  const std::string valid = "valid";
  return {
      {"convert", {}, {{u8, {7}}}, {f32, {7}}},
      {"convert", {}, {{cu8, {7}}}, {cf32, {7}}},
      {"convert", {}, {{i32, {9, 2}, true}}, {f32, {9, 2}, true}},
      {"convert", {{"to", std::string{"cf32"}}}, {{i16, {7}}}, {cf32, {7}}},
      {"convert", {{"to", std::string{"cf32"}}}, {{ci16, {7}}}, {cf32, {7}}},
      {"convert", {{"to", std::string{"bf16"}}}, {{f64, {7}}}, {bf16, {7}}},
      {"convert", {{"to", std::string{"bool"}}}, {{i64, {7, 2}, true}}, {boolean, {7, 2}, true}},
      {"convert", {}, {{f16, {7}}}, {f32, {7}}},
      {"convert", {{"to", std::string{"ci16"}}}, {{cf32, {7}}}, {ci16, {7}}},
      {"convert", {{"planar", true}}, {{i16, {100, 2}}}, {f32, {2, 100}}},
      {"convert", {{"planar", true}}, {{ci8, {100, 3}}}, {cf32, {3, 100}}},
      {"magnitude", {}, {{cf32, {5, 6}, true}}, {f32, {5, 6}, true}},
      {"window", {}, {{cf32, {5, 6}, true}}, {cf32, {5, 6}, true}},
      {"window", {}, {{f32, {6}}}, {f32, {6}}},
      {"power_spectrum", {}, {{f32, {1024}}}, {f32, {513}}},
      {"power_spectrum", {}, {{f32, {7}}}, {f32, {4}}},
      {"power_spectrum", {}, {{cf32, {4, 7}, true}}, {f32, {4, 7}, true}},
      {"moments", {}, {{f32, {1024}}}, {f32, {5}}},
      {"moments", {}, {{f32, {1024}, true}}, {f32, {5}}},
      {"moments", {{"order", std::int64_t{4}}}, {{cf32, {8, 1024}}}, {f32, {8, 3, 7}}},
      {"moments", {}, {{f32, {8, 1024}, true}}, {f32, {8, 5}, true}},
      {"moments", {}, {{cf32, {1024}, true}}, {f32, {3, 5}}},
      {"moments", {}, {{cf32, {8, 1024}, true}}, {f32, {8, 3, 5}, true}},
      {"histogram", {}, {{u8, {1024}}}, {i32, {256}}},
      {"histogram", {}, {{i16, {1024}, true}}, {i32, {256}}},
      {"histogram", {}, {{cf32, {1024}, true}}, {i32, {2, 256}}},
      {"histogram", {}, {{ci16, {8, 1024}, true}}, {i32, {8, 2, 256}, true}},
      {"histogram", {{"range", list{0.0, 1.0}}}, {{f32, {8, 4}}}, {i32, {8, 256}}},
      {"affine", {{"a", std::int64_t{2}}}, {{cf32, {8, 4}, true}}, {cf32, {8, 4}, true}},
      {"fir", {{"taps", list{1.0}}}, {{cf32, {8, 4}, true}}, {cf32, {8, 4}, true}},
      {"affine", {{"a", 1e200}}, {{f64, {8}}}, {f64, {8}}},
      {"moments", {}, {{f64, {1024}, true}}, {f32, {5}}},
      {"histogram", {}, {{f16, {8, 4}}}, {i32, {8, 256}}},
      {"reframe", {{"length", std::int64_t{4}}}, {{boolean, {8}}}, {boolean, {2, 4}}},
      {"concat", {}, {{i64, {4, 2}}, {i64, {1, 2}}}, {i64, {5, 2}}},
      {"reframe", {{"length", std::int64_t{4}}}, {{u8, {8}}}, {u8, {2, 4}}},
      {"reframe", {{"length", std::int64_t{10}}}, {{ci16, {8, 3}, true}}, {ci16, {1, 10, 3}, true}},
      {"reframe",
       {{"length", std::int64_t{4}}, {"hop", std::int64_t{2}}, {"padding", std::int64_t{2}}},
       {{f32, {8}}},
       {f32, {4, 4}}},
      {"reframe", {{"length", std::int64_t{4}}, {"hop", std::int64_t{9}}}, {{f32, {8}, true}}, {f32, {1, 4}, true}},
      {"add", {}, {{f32, {4}}, {f32, {4}}}, {f32, {4}}},
      {"add", {}, std::vector<tensor_spec>(32, {cf32, {4, 2}, true}), {cf32, {4, 2}, true}},
      {"multiply", {{"conjugate", true}}, {{cf32, {4}, true}, {cf32, {4}, true}}, {cf32, {4}, true}},
      {"concat", {}, {{u8, {4, 2}}, {u8, {1, 2}}, {u8, {3, 2}}}, {u8, {8, 2}}},
      {"concat", {{"axis", std::int64_t{-1}}}, {{ci16, {4, 2}}, {ci16, {4, 5}}}, {ci16, {4, 7}}},
      {"concat", {{"axis", std::int64_t{1}}}, {{i32, {4, 2, 3}, true}, {i32, {4, 1, 3}, true}}, {i32, {4, 3, 3}, true}},
      {"correlate", {{"template", list{1, 2, 3}}}, {{f32, {10}}}, {f32, {12}}},
      {"correlate", {{"template", list{1, 2, 3}}, {"mode", same}}, {{cf32, {10}}}, {cf32, {10}}},
      {"correlate", {{"template", list{1, 2, 3}}, {"mode", valid}}, {{f32, {6, 10}, true}}, {f32, {6, 8}, true}},
      {"correlate", {{"template", list{1, 2, 3}}, {"mode", valid}}, {{f32, {2}}}, {f32, {2}}},
      {"correlate", {{"template", list{1}}, {"template_imag", list{1}}}, {{f32, {10}}}, {cf32, {10}}},
      {"correlate", {}, {{f32, {10}}, {f32, {4}}}, {f32, {13}}},
      {"correlate", {}, {{f32, {6, 10}, true}, {cf32, {4}}}, {cf32, {6, 13}, true}},
      {"correlate", {{"mode", same}}, {{cf32, {6, 10}, true}, {f32, {6, 4}, true}}, {cf32, {6, 10}, true}},
      {"detect", {{"high", 1.0}}, {{f32, {1024}}}, {f32, {65, 2}}},
      {"detect", {{"high", 1.0}, {"max_events", std::int64_t{3}}}, {{f32, {1024}, true}}, {f32, {4, 2}}},
      {"detect", {{"high", std::int64_t{1}}}, {{f32, {6, 1024}, true}}, {f32, {6, 65, 2}, true}},
      {"detect", {{"high", 1.0}}, {{f32, {1 << 24}}}, {f32, {65, 2}}},
      {"detect", {{"high", 1.0}, {"along", std::string{"session"}}}, {{f32, {8, 3}, true}}, {f64, {3, 65, 4}}},
      {"detect", {{"high", 1.0}, {"along", std::string{"session"}}}, {{f32, {1 << 25}}}, {f64, {65, 4}}},
  };
}

TEST(OperatorShape, IsWhatTheDocumentSays) {
  for (const shape_row& row : shapes()) {
    const tensor_spec output = find_operator(row.op)->infer(settings_of(row.settings), row.inputs);
    EXPECT_EQ(output, row.output) << row.op << " of " << row.inputs.front().text() << " gives " << output.text()
                                  << ", not " << row.output.text();
  }
}

struct refusal_row {
  const char* op;
  entries settings;
  std::vector<tensor_spec> inputs;
  const char* field;
  const char* message;
};

void expect_all_refused(const std::vector<refusal_row>& rows) {
  for (const refusal_row& row : rows) {
    expect_refused(row.op, settings_of(row.settings), row.inputs, row.field, row.message);
  }
}

TEST(OperatorRefusal, NamesTheParameterAndWhatIsAllowed) {
  const std::int64_t eight = 8;
  expect_all_refused({
      {"convert", {{"to", std::string{"f8"}}}, {{u8, {4}}}, "to", "an element type, such as \"f32\" or \"cf32\""},
      {"convert", {{"to", std::string{"ci16"}}}, {{f32, {4}}}, "to", "a real type or \"cf32\" for f32[4]"},
      {"convert", {{"scale", 1.0}}, {{u8, {4}}}, "scale", "true or false"},
      {"convert", {{"to", true}}, {{u8, {4}}}, "to", "a string"},
      {"convert", {{"to", std::string{"f32"}}}, {{cu8, {4}}}, "to", "cu8[4]"},
      {"convert", {{"planar", std::string{"yes"}}}, {{u8, {4, 2}}}, "planar", "true or false"},
      {"convert", {{"planar", true}}, {{u8, {4}}}, "planar", "two dimensions"},
      {"convert", {{"planar", true}}, {{u8, {4, 2, 2}}}, "planar", "its input is u8[4, 2, 2]: convert frames of"},
      {"convert", {{"planar", true}}, {{u8, {4, 2}, true}}, "planar", "variable"},
      {"magnitude", {{"squared", 1.0}}, {{cf32, {4}}}, "squared", "true or false"},
      {"window", {{"window", std::string{"hanning"}}}, {{f32, {4}}}, "window", "\"hann\", \"hamming\""},
      {"window", {{"window", 3.0}}, {{f32, {4}}}, "window", "a string"},
      {"power_spectrum", {{"window", std::string{""}}}, {{f32, {4}}}, "window", "\"blackman\" or \"rectangular\""},
      {"power_spectrum", {{"scale", std::string{"dB"}}}, {{f32, {4}}}, "scale", "\"power\" or \"db\""},
      {"histogram", {{"range", list{0.0}}}, {{f32, {4}}}, "range", "[lo, hi]"},
      {"histogram", {{"range", list{0.0, 1.0, 2.0}}}, {{f32, {4}}}, "range", "[lo, hi]"},
      {"histogram", {{"range", list{1.0, 1.0}}}, {{f32, {4}}}, "range", "lo below hi"},
      {"histogram", {{"range", list{1.0, -1.0}}}, {{f32, {4}}}, "range", "lo below hi"},
      {"histogram", {{"range", list{nan, 1.0}}}, {{f32, {4}}}, "range", "finite"},
      {"histogram", {{"range", list{-infinity, 1.0}}}, {{f32, {4}}}, "range", "finite"},
      {"histogram", {{"range", list{-1e308, 1e308}}}, {{f32, {4}}}, "range", "finite"},
      {"histogram", {{"range", 3.0}}, {{f32, {4}}}, "range", "a list of numbers"},
      {"histogram", {{"range", list{0.0, 1.0}}}, {{i16, {4}}}, "range", "i16[4]"},
      {"affine", {{"a", std::string{"2"}}}, {{f32, {4}}}, "a", "a number"},
      {"affine", {{"a", infinity}}, {{f32, {4}}}, "a", "finite"},
      {"affine", {{"b", nan}}, {{f32, {4}}}, "b", "finite"},
      {"affine", {{"b", 1e39}}, {{f32, {4}}}, "b", "finite"},
      {"affine", {{"b", 1e39}}, {{bf16, {4}}}, "b", "finite"},
      {"affine", {{"a", infinity}}, {{f64, {4}}}, "a", "a finite number"},
      {"moments", {{"order", std::int64_t{3}}}, {{f32, {4}}}, "order", "must be 2, or 4"},
      {"reframe", {{"length", 4.0}}, {{u8, {100}}}, "length", "an integer"},
      {"reframe", {{"length", std::int64_t{0}}}, {{u8, {100}}}, "length", "from 1"},
      {"reframe", {{"length", std::int64_t{1} << 31}}, {{u8, {100}}}, "length", "2147483647"},
      {"reframe", {{"length", std::int64_t{8}}}, {{u8, {100}}}, "length", "divide the 100 steps of u8[100]"},
      {"reframe", {{"length", eight}, {"hop", std::int64_t{0}}}, {{u8, {100}}}, "hop", "from 1"},
      {"reframe", {{"length", eight}, {"hop", std::int64_t{3}}}, {{u8, {100}}}, "hop", "divide the 100 steps"},
      {"reframe",
       {{"length", eight}, {"hop", std::int64_t{4}}},
       {{u8, {100}}},
       "padding",
       "at least 'length' - 'hop', 4"},
      {"reframe", {{"length", eight}, {"padding", eight}}, {{u8, {100}, true}}, "padding", "from 0 to 7"},
  });
}

TEST(OperatorRefusal, NamesTheInputThatItCannotTake) {
  expect_all_refused({
      {"magnitude", {}, {{f32, {4}}}, "from", "takes cf32, not f32[4]"},
      {"magnitude", {}, {{cu8, {4}}}, "from", "'convert'"},
      {"window", {}, {{i16, {4}}}, "from", "takes f32 or cf32, not i16[4]"},
      {"window", {}, {{f32, {4}, true}}, "from", "f32[max 4]"},
      {"power_spectrum", {}, {{u8, {4}}}, "from", "takes f32 or cf32, not u8[4]"},
      {"power_spectrum", {}, {{f32, {4}, true}}, "from", "fixed"},
      {"power_spectrum", {}, {{cf32, {4, 1}}}, "from", "at least 2"},
      {"moments", {}, {{ci16, {4}}}, "from", "takes f32, cf32, f16, bf16 or f64, not ci16[4]"},
      {"affine", {}, {{i32, {4}}}, "from", "takes f32, cf32, f16, bf16 or f64, not i32[4]"},
      {"histogram", {}, {{i64, {4}}}, "from", "u16, f16, bf16 or f64, not i64[4]"},
      {"histogram", {}, {{boolean, {4}}}, "from", "not bool[4]; a 'convert' stage before it makes that"},
      {"fir", {{"taps", list{1.0}}}, {{f64, {4}}}, "from", "takes f32 or cf32, not f64[4]; a 'convert' stage"},
      {"reframe", {}, {{i32, {4}}}, "length", "is missing"},
  });
}

TEST(OperatorRefusal, OfMoreOrFewerInputsThanOneNamesTheirNumber) {
  const std::vector<tensor_spec> two(2, {cf32, {8}});
  for (const operator_definition& known : operator_catalogue()) {
    if (!sample_of(known.name).sole_input) {
      continue;
    }
    for (const std::size_t count : {std::size_t{0}, std::size_t{2}}) {
      expect_refused(known.name, {}, {two.begin(), two.begin() + static_cast<std::ptrdiff_t>(count)}, "from",
                     "exactly one input, not " + std::to_string(count));
    }
  }
}

TEST(OperatorRefusal, OfInputsThatDoNotGoTogetherNamesThem) {
  expect_all_refused({
      {"add", {}, {}, "from", "two inputs or more, not 0"},
      {"add", {}, {{f32, {4}}}, "from", "two inputs or more, not 1"},
      {"add", {}, std::vector<tensor_spec>(33, {f32, {4}}), "from", "at most 32 inputs, not 33"},
      {"add", {}, {{f32, {4}}, {f32, {5}}}, "from", "f32[4] and f32[5]"},
      {"add", {}, {{f32, {4}}, {f32, {4}}, {cf32, {4}}}, "from", "f32[4] and cf32[4]"},
      {"add", {}, {{f32, {4}}, {f32, {4}, true}}, "from", "f32[max 4]"},
      {"multiply", {}, {{i16, {4}}, {i16, {4}}}, "from", "takes f32 or cf32, not i16[4]"},
      {"multiply", {}, {{f32, {4, 2}}, {f32, {8}}}, "from", "one shape"},
      {"multiply", {{"conjugate", true}}, {{f32, {4}}, {f32, {4}}}, "conjugate", "cf32 inputs, not for f32[4]"},
      {"multiply", {{"conjugate", 1.0}}, {{cf32, {4}}, {cf32, {4}}}, "conjugate", "true or false"},
      {"concat", {}, {{u8, {4}}}, "from", "two inputs or more, not 1"},
      {"concat", {}, {{u8, {4}}, {i8, {4}}}, "from", "u8[4] and i8[4]"},
      {"concat", {}, {{u8, {4, 2}}, {u8, {4, 3}}}, "from", "but along axis 0"},
      {"concat", {}, {{u8, {4}}, {u8, {4, 1}}}, "from", "u8[4, 1]"},
      {"concat", {{"axis", std::int64_t{1}}}, {{u8, {4, 1}}, {u8, {4}}}, "from", "but along axis 1"},
      {"concat", {{"axis", std::int64_t{1}}}, {{u8, {4}}, {u8, {4}}}, "axis", "-1 to 0, not 1"},
      {"concat", {{"axis", std::int64_t{-3}}}, {{u8, {4, 1}}, {u8, {4, 1}}}, "axis", "not -3"},
      {"concat", {{"axis", 1.0}}, {{u8, {4, 1}}, {u8, {4, 1}}}, "axis", "an integer"},
      {"concat", {}, {{u8, {4}, true}, {u8, {4}, true}}, "axis", "behind the leading \"max N\""},
      {"concat", {{"axis", std::int64_t{1}}}, {{u8, {4, 1}, true}, {u8, {4, 1}}}, "from", "u8[max 4, 1]"},
      {"concat", {{"axis", std::int64_t{1}}}, {{u8, {4, 1}, true}, {u8, {5, 1}, true}}, "from", "u8[max 5, 1]"},
  });
}

TEST(OperatorRefusal, OfACorrelationAllowsASignalAndOneKindOfTemplate) {
  const list h{1, 2, 3};
  expect_all_refused({
      {"correlate", {}, {}, "from", "a signal and its templates, not 0 inputs"},
      {"correlate", {}, {{f32, {4}}, {f32, {4}}, {f32, {4}}}, "from", "not 3 inputs"},
      {"correlate", {}, {{f32, {4}}}, "template", "second input"},
      {"correlate", {{"template", h}}, {{f32, {4}}, {f32, {3}}}, "template", "second input"},
      {"correlate", {{"template_imag", h}}, {{f32, {4}}, {f32, {3}}}, "template_imag", "second input"},
      {"correlate", {{"template", list{}}}, {{f32, {4}}}, "template", "at least one"},
      {"correlate", {{"template", list{1e39}}}, {{f32, {4}}}, "template", "finite"},
      {"correlate", {{"template", 3.0}}, {{f32, {4}}}, "template", "a list of numbers"},
      {"correlate",
       {{"template", h}, {"template_imag", list{1}}},
       {{f32, {4}}},
       "template_imag",
       "'template', 3, not 1"},
      {"correlate", {{"template", h}, {"mode", std::string{"all"}}}, {{f32, {4}}}, "mode", "\"valid\", not \"all\""},
      {"correlate", {{"template", h}, {"method", std::string{"FFT"}}}, {{f32, {4}}}, "method", "\"direct\" or \"fft\""},
      {"correlate", {{"template", h}}, {{i16, {4}}}, "from", "takes f32 or cf32, not i16[4]"},
      {"correlate", {{"template", h}}, {{f32, {4}, true}}, "from", "fixed"},
      {"correlate", {}, {{f32, {4}}, {u8, {4}}}, "from", "not u8[4]"},
      {"correlate", {}, {{f32, {4}}, {f32, {4}, true}}, "from", "fixed"},
      {"correlate", {}, {{f32, {2, 4}}, {f32, {3, 4}}}, "from", "f32[3, 4] for f32[2, 4]"},
      {"correlate", {}, {{f32, {2, 4}}, {f32, {2, 4}, true}}, "from", "leading extents"},
      {"correlate", {}, {{f32, {4}}, {f32, {2, 4}}}, "from", "leading extents"},
  });
}

TEST(OperatorRefusal, OfADetectionAllowsRowsWhoseIndicesF32Holds) {
  const std::vector<tensor_spec> row{{f32, {4}}};
  expect_all_refused({
      {"detect", {}, row, "high", "is missing"},
      {"detect", {{"high", infinity}}, row, "high", "finite"},
      {"detect", {{"high", 1.0}, {"low", -1e39}}, row, "low", "finite"},
      {"detect", {{"high", 1.0}, {"low", 1.5}}, row, "low", "at most 'high'"},
      {"detect", {{"high", 1.0}, {"low", std::string{"0"}}}, row, "low", "a number"},
      {"detect", {{"high", 1.0}, {"max_events", std::int64_t{0}}}, row, "max_events", "from 1 to 65536, not 0"},
      {"detect", {{"high", 1.0}, {"max_events", std::int64_t{65537}}}, row, "max_events", "not 65537"},
      {"detect", {{"high", 1.0}, {"max_events", 3.0}}, row, "max_events", "an integer"},
      {"detect", {{"high", 1.0}, {"gap", std::int64_t{2}}}, row, "gap", "along = \"session\""},
      {"detect", {{"high", 1.0}, {"along", std::string{"time"}}}, row, "along", "\"row\" or \"session\""},
      {"detect",
       {{"high", 1.0}, {"along", std::string{"session"}}, {"min_length", std::int64_t{0}}},
       row,
       "min_length",
       "from 1"},
      {"detect", {{"high", 1.0}}, {{cf32, {4}}}, "from", "takes f32, not cf32[4]"},
      {"detect", {{"high", 1.0}}, {{f32, {2, (1 << 24) + 1}}}, "from", "16777216"},
  });
}

}  // namespace
}  // namespace penstock
