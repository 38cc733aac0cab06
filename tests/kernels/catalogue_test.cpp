#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/operation.hpp"

namespace penstock {
namespace {

using testing::ElementsAre;

TEST(Catalogue, ListsEveryOperatorByName) {
  std::vector<std::string> names;
  for (const operator_definition& known : operator_catalogue()) {
    names.emplace_back(known.name);
  }
  EXPECT_THAT(names, ElementsAre("affine", "convert", "histogram", "magnitude", "moments", "power_spectrum", "window"));
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
  EXPECT_THAT(find_operator("affine")->keys, ElementsAre("a", "b"));
  EXPECT_THAT(find_operator("convert")->keys, ElementsAre("to", "planar"));
  EXPECT_THAT(find_operator("histogram")->keys, ElementsAre("range"));
  EXPECT_THAT(find_operator("magnitude")->keys, ElementsAre("squared"));
  EXPECT_THAT(find_operator("moments")->keys, ElementsAre());
  EXPECT_THAT(find_operator("power_spectrum")->keys, ElementsAre("window", "scale"));
  EXPECT_THAT(find_operator("window")->keys, ElementsAre("window"));
}

TEST(Catalogue, MakesAHostOperationOfEachOperator) {
  const tensor_spec input{.type = element_type::cf32, .shape = {2, 8}};
  const parameters settings;
  for (const operator_definition& known : operator_catalogue()) {
    EXPECT_NE(known.make_host({.settings = settings, .inputs = std::span{&input, 1}, .max_frames = 2}), nullptr)
        << known.name;
  }
}

}  // namespace
}  // namespace penstock
