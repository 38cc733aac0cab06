#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/operation.hpp"
#include "tests/kernels/operator_sample.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;
using enum element_type;

struct refusal_row {
  const char* op;
  tensor_spec input;
  const char* key;  ///< the parameter that is set, nullptr for none
  parameters::value what;
  const char* field;    ///< that the error names
  const char* message;  ///< a part of it
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<refusal_row> wrong_parameters() {
  using list = std::vector<double>;
  return {
      {"convert", {u8, {4}}, "to", std::string{"f64"}, "to", "\"f32\" or \"cf32\""},
      {"convert", {u8, {4}}, "to", true, "to", "a string"},
      {"convert", {cu8, {4}}, "to", std::string{"f32"}, "to", "cu8[4]"},
      {"convert", {u8, {4, 2}}, "planar", std::string{"yes"}, "planar", "true or false"},
      {"convert", {u8, {4}}, "planar", true, "planar", "two dimensions"},
      {"convert", {u8, {4, 2, 2}}, "planar", true, "planar", "its input is u8[4, 2, 2]: convert frames of"},
      {"convert", {u8, {4, 2}, true}, "planar", true, "planar", "variable"},
      {"magnitude", {cf32, {4}}, "squared", 1.0, "squared", "true or false"},
      {"window", {f32, {4}}, "window", std::string{"hanning"}, "window", "\"hann\", \"hamming\""},
      {"window", {f32, {4}}, "window", 3.0, "window", "a string"},
      {"power_spectrum", {f32, {4}}, "window", std::string{""}, "window", "\"blackman\" or \"rectangular\""},
      {"power_spectrum", {f32, {4}}, "scale", std::string{"dB"}, "scale", "\"power\" or \"db\""},
      {"histogram", {f32, {4}}, "range", list{0.0}, "range", "[lo, hi]"},
      {"histogram", {f32, {4}}, "range", list{0.0, 1.0, 2.0}, "range", "[lo, hi]"},
      {"histogram", {f32, {4}}, "range", list{1.0, 1.0}, "range", "lo below hi"},
      {"histogram", {f32, {4}}, "range", list{1.0, -1.0}, "range", "lo below hi"},
      {"histogram", {f32, {4}}, "range", list{nan, 1.0}, "range", "finite"},
      {"histogram", {f32, {4}}, "range", list{-infinity, 1.0}, "range", "finite"},
      {"histogram", {f32, {4}}, "range", list{-1e308, 1e308}, "range", "finite"},
      {"histogram", {f32, {4}}, "range", 3.0, "range", "a list of numbers"},
      {"histogram", {i16, {4}}, "range", list{0.0, 1.0}, "range", "i16[4]"},
      {"affine", {f32, {4}}, "a", std::string{"2"}, "a", "a number"},
      {"affine", {f32, {4}}, "a", infinity, "a", "finite"},
      {"affine", {f32, {4}}, "b", nan, "b", "finite"},
      {"affine", {f32, {4}}, "b", 1e39, "b", "finite"},
      {"reframe", {u8, {100}}, "length", 4.0, "length", "an integer"},
      {"reframe", {u8, {100}}, "length", std::int64_t{0}, "length", "from 1"},
      {"reframe", {u8, {100}}, "length", std::int64_t{1} << 31, "length", "2147483647"},
      {"reframe", {u8, {100}}, "length", std::int64_t{8}, "length", "divide the 100 steps of u8[100]"},
  };
}

std::vector<refusal_row> wrong_inputs() {
  return {
      {"magnitude", {f32, {4}}, nullptr, {}, "from", "takes cf32, not f32[4]"},
      {"magnitude", {cu8, {4}}, nullptr, {}, "from", "'convert'"},
      {"window", {i16, {4}}, nullptr, {}, "from", "takes f32 or cf32, not i16[4]"},
      {"window", {f32, {4}, true}, nullptr, {}, "from", "f32[max 4]"},
      {"power_spectrum", {u8, {4}}, nullptr, {}, "from", "takes f32 or cf32, not u8[4]"},
      {"power_spectrum", {f32, {4}, true}, nullptr, {}, "from", "fixed"},
      {"power_spectrum", {cf32, {4, 1}}, nullptr, {}, "from", "at least 2"},
      {"moments", {ci16, {4}}, nullptr, {}, "from", "takes f32 or cf32, not ci16[4]"},
      {"affine", {i32, {4}}, nullptr, {}, "from", "takes f32 or cf32, not i32[4]"},
      {"reframe", {i32, {4}}, nullptr, {}, "length", "is missing"},
  };
}

void expect_refused(const refusal_row& row) {
  parameters settings;
  if (row.key != nullptr) {
    settings.set(row.key, row.what);
  }
  try {
    const tensor_spec output = find_operator(row.op)->infer(settings, std::span{&row.input, 1});
    ADD_FAILURE() << row.op << " made " << output.text() << " of " << row.input.text() << "; wanted: " << row.message;
  } catch (const parameter_error& error) {
    EXPECT_EQ(error.field, row.field) << row.op << ": " << error.what();
    EXPECT_THAT(error.what(), HasSubstr(row.message)) << row.op;
  }
}

TEST(OperatorRefusal, NamesTheParameterAndWhatIsAllowed) {
  for (const refusal_row& row : wrong_parameters()) {
    expect_refused(row);
  }
}

TEST(OperatorRefusal, NamesTheInputThatItCannotTake) {
  for (const refusal_row& row : wrong_inputs()) {
    expect_refused(row);
  }
}

TEST(OperatorRefusal, OfMoreOrFewerInputsThanOneNamesTheirNumber) {
  const std::vector<tensor_spec> two(2, {cf32, {8}});
  for (const operator_definition& known : operator_catalogue()) {
    if (!sample_of(known.name).sole_input) {
      continue;
    }
    for (const std::size_t count : {std::size_t{0}, std::size_t{2}}) {
      try {
        static_cast<void>(known.infer({}, std::span{two}.first(count)));
        ADD_FAILURE() << known.name << " took " << count << " inputs";
      } catch (const parameter_error& error) {
        EXPECT_EQ(error.field, "from") << known.name;
        EXPECT_THAT(error.what(), HasSubstr("exactly one input, not " + std::to_string(count))) << known.name;
      }
    }
  }
}

}  // namespace
}  // namespace penstock
