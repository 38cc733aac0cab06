#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/operation.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using enum element_type;
using list = std::vector<double>;
using entries = std::vector<std::pair<const char*, parameters::value>>;

parameters settings_of(const entries& given) {
  parameters settings;
  for (const auto& [key, what] : given) {
    settings.set(key, what);
  }
  return settings;
}

// Shapes and refusals of the operators that read several inputs, and of those with more than one parameter to set.

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
  };
}

TEST(OperatorInputs, GiveTheShapeThatTheDocumentSays) {
  for (const shape_row& row : shapes()) {
    EXPECT_EQ(find_operator(row.op)->infer(settings_of(row.settings), row.inputs), row.output)
        << row.op << " should give " << row.output.text();
  }
}

struct refusal_row {
  const char* op;
  entries settings;
  std::vector<tensor_spec> inputs;
  const char* field;
  const char* message;
};

void expect_refused(const std::vector<refusal_row>& rows) {
  for (const refusal_row& row : rows) {
    try {
      const tensor_spec output = find_operator(row.op)->infer(settings_of(row.settings), row.inputs);
      ADD_FAILURE() << row.op << " made " << output.text() << "; wanted: " << row.message;
    } catch (const parameter_error& error) {
      EXPECT_EQ(error.field, row.field) << row.op << ": " << error.what();
      EXPECT_THAT(error.what(), HasSubstr(row.message)) << row.op;
    }
  }
}

TEST(OperatorInputs, AreRefusedWhenTheyDoNotGoTogether) {
  expect_refused({
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

TEST(OperatorInputs, OfACorrelationAreASignalAndOneKindOfTemplate) {
  const list h{1, 2, 3};
  expect_refused({
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

TEST(OperatorInputs, OfADetectionAreRowsWhoseIndicesF32Holds) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::vector<tensor_spec> row{{f32, {4}}};
  expect_refused({
      {"detect", {}, row, "high", "is missing"},
      {"detect", {{"high", infinity}}, row, "high", "finite"},
      {"detect", {{"high", 1.0}, {"low", -1e39}}, row, "low", "finite"},
      {"detect", {{"high", 1.0}, {"low", 1.5}}, row, "low", "at most 'high'"},
      {"detect", {{"high", 1.0}, {"low", std::string{"0"}}}, row, "low", "a number"},
      {"detect", {{"high", 1.0}, {"max_events", std::int64_t{0}}}, row, "max_events", "from 1 to 65536, not 0"},
      {"detect", {{"high", 1.0}, {"max_events", std::int64_t{65537}}}, row, "max_events", "not 65537"},
      {"detect", {{"high", 1.0}, {"max_events", 3.0}}, row, "max_events", "an integer"},
      {"detect", {{"high", 1.0}}, {{cf32, {4}}}, "from", "takes f32, not cf32[4]"},
      {"detect", {{"high", 1.0}}, {{f32, {2, (1 << 24) + 1}}}, "from", "16777216"},
  });
}

}  // namespace
}  // namespace penstock
