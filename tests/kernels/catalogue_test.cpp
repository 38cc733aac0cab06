#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/operation.hpp"
#include "tests/kernels/operator_sample.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;

TEST(Catalogue, ListsEveryOperatorByName) {
  std::vector<std::string> names;
  for (const operator_definition& known : operator_catalogue()) {
    names.emplace_back(known.name);
  }
  EXPECT_THAT(names, ElementsAre("accumulate", "add", "affine", "concat", "convert", "correlate", "detect", "fir",
                                 "histogram", "iir", "magnitude", "moments", "moving_zscore", "multiply",
                                 "power_spectrum", "reframe", "window"));
}

TEST(Catalogue, FindsEachOperatorThatItLists) {
  for (const operator_definition& known : operator_catalogue()) {
    EXPECT_EQ(find_operator(known.name), &known);
  }
}

TEST(Catalogue, FindsNoOther) {
  EXPECT_EQ(find_operator(""), nullptr);
  EXPECT_EQ(find_operator("fft"), nullptr);
  EXPECT_EQ(find_operator("Convert"), nullptr);
}

TEST(Catalogue, KnowsTheKeysOfEachOperator) {
  EXPECT_THAT(find_operator("accumulate")->keys, ElementsAre("frames", "kind", "along"));
  EXPECT_THAT(find_operator("add")->keys, ElementsAre());
  EXPECT_THAT(find_operator("affine")->keys, ElementsAre("a", "b"));
  EXPECT_THAT(find_operator("concat")->keys, ElementsAre("axis"));
  EXPECT_THAT(find_operator("convert")->keys, ElementsAre("to", "planar"));
  EXPECT_THAT(find_operator("correlate")->keys, ElementsAre("template", "template_imag", "mode", "method"));
  EXPECT_THAT(find_operator("detect")->keys, ElementsAre("high", "low", "max_events"));
  EXPECT_THAT(find_operator("fir")->keys, ElementsAre("taps", "taps_imag", "decimation"));
  EXPECT_THAT(find_operator("histogram")->keys, ElementsAre("range"));
  EXPECT_THAT(find_operator("iir")->keys, ElementsAre("sections"));
  EXPECT_THAT(find_operator("magnitude")->keys, ElementsAre("squared"));
  EXPECT_THAT(find_operator("moments")->keys, ElementsAre());
  EXPECT_THAT(find_operator("moving_zscore")->keys, ElementsAre("window", "floor", "output", "threshold"));
  EXPECT_THAT(find_operator("multiply")->keys, ElementsAre("conjugate"));
  EXPECT_THAT(find_operator("power_spectrum")->keys, ElementsAre("window", "scale"));
  EXPECT_THAT(find_operator("reframe")->keys, ElementsAre("length"));
  EXPECT_THAT(find_operator("window")->keys, ElementsAre("window"));
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
    EXPECT_EQ(made->state_bytes() > 0, known.session != nullptr) << known.name;
  }
}

}  // namespace
}  // namespace penstock
