#include <algorithm>
#include <span>

#include <gtest/gtest.h>

#include "kernels/operation.hpp"
#include "tests/kernels/operator_sample.hpp"

namespace penstock {
namespace {

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
  EXPECT_EQ(find_operator("fft"), nullptr);
  EXPECT_EQ(find_operator("Convert"), nullptr);
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
