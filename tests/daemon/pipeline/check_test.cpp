#include "daemon/pipeline/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/pipeline/declarations.hpp"

namespace penstock {
namespace {

using names = std::vector<std::string>;

std::string complaint_about(const pipeline_declaration& declared, const field_lines& lines = {}) {
  try {
    (void)check_pipeline(declared, lines);
  } catch (const configuration_error& error) {
    return error.what();
  }
  return "no complaint";
}

names names_of(const pipeline_declaration& checked) {
  names out;
  for (const stage_declaration& each : checked.stages) {
    out.push_back(each.name);
  }
  return out;
}

TEST(check, ReadsFromTheStageBeforeWhereNothingIsGiven) {
  const auto checked = check_pipeline(pipeline({convert("a", {}), convert("b", {})}));
  EXPECT_EQ(checked.stages[0].from, names{"input"});
  EXPECT_EQ(checked.stages[1].from, names{"a"});
}

TEST(check, GivesTheLastStageOutWhereNothingIsGiven) {
  EXPECT_EQ(check_pipeline(pipeline({convert("a", {}), convert("b", {})})).outputs, names{"b"});
}

TEST(check, PutsStagesInAnOrderInWhichTheyRun) {
  const auto checked = check_pipeline(
      pipeline({convert("last", {"middle"}), convert("first", {"input"}), convert("middle", {"first"})}, {"last"}));
  EXPECT_EQ(names_of(checked), (names{"first", "middle", "last"}));
}

TEST(check, InfersShapesAndTypesFromEndToEnd) {
  auto declared =
      pipeline({stage("iq", "convert", {}, {{"to", std::string("cf32")}}), stage("psd", "power_spectrum", {"iq"})});
  declared.input = {element_type::cu8, {1024}, false};
  const auto checked = check_pipeline(declared);
  EXPECT_EQ(checked.stages[0].output, (tensor_spec{element_type::cf32, {1024}, false}));
  EXPECT_EQ(checked.stages[1].output, (tensor_spec{element_type::f32, {1024}, false}));
}

TEST(check, LetsSeveralStagesReadOne) {
  const auto checked = check_pipeline(
      pipeline({convert("a", {}), stage("s", "moments", {"a"}), stage("p", "power_spectrum", {"a"})}, {"p", "s", "a"}));
  EXPECT_EQ(checked.outputs, (names{"p", "s", "a"}));
}

TEST(check, IsUnmovedByItsOwnResult) {
  const auto once = check_pipeline(pipeline({convert("b", {"a"}), convert("a", {"input"})}, {"b"}));
  const auto twice = check_pipeline(once);
  EXPECT_EQ(names_of(twice), names_of(once));
  EXPECT_EQ(twice.stages[1].from, once.stages[1].from);
}

TEST(check, NamesTheLineOfTheFieldWhenItKnowsIt) {
  field_lines lines;
  lines.set(0, "op", 42);
  EXPECT_THAT(
      complaint_about(pipeline({stage("a", "convrt", {})}), lines),
      testing::StartsWith("test.toml:42: pipeline 'test', stage 'a', field 'op': there is no operator 'convrt'; "
                          "did you mean 'convert'?"));
  EXPECT_THAT(complaint_about(pipeline({stage("a", "convrt", {})})), testing::StartsWith("test.toml:7: "));
}

TEST(check, NamesTheLineAsDeclaredAlthoughStagesMove) {
  field_lines lines;
  lines.set(0, "to", 42);
  auto wrong = stage("b", "convert", {"a"}, {{"to", std::string("f31")}});
  EXPECT_THAT(complaint_about(pipeline({wrong, convert("a", {"input"})}, {"b"}), lines),
              testing::StartsWith("test.toml:42: pipeline 'test', stage 'b', field 'to': "));
}

TEST(check, RefusesACycleAndShowsIt) {
  EXPECT_EQ(complaint_about(pipeline({convert("a", {"c"}), convert("b", {"a"}), convert("c", {"b"})})),
            "test.toml:7: pipeline 'test', stage 'a', field 'from': the stages go round in a circle: "
            "'a' reads from 'c' reads from 'b' reads from 'a'");
  EXPECT_THAT(complaint_about(pipeline({convert("a", {"a"})})), testing::HasSubstr("'a' reads from 'a'"));
}

TEST(check, RefusesAStageThatNobodyTakes) {
  EXPECT_EQ(complaint_about(pipeline({convert("a", {}), convert("b", {"a"}), convert("c", {"a"})}, {"c"})),
            "test.toml:7: pipeline 'test', stage 'b': nobody takes its result; add it to the pipeline's outputs, "
            "read from it, or remove it");
}

TEST(check, RefusesAFrameLargerThanABatchWithoutOverflow) {
  auto declared = pipeline({convert("a", {})});
  declared.batch.max_bytes = 2047;
  EXPECT_EQ(
      complaint_about(declared),
      "test.toml:2: pipeline 'test', field 'batch.max_bytes': a batch holds 2047 bytes, less than one input frame "
      "of i16[1024]; raise max_bytes or make the frame smaller");
  declared.batch.max_bytes = 2048;
  EXPECT_EQ(complaint_about(declared), "no complaint");
  declared.input.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40, 1};
  EXPECT_THAT(complaint_about(declared), testing::HasSubstr("field 'batch.max_bytes'"));
}

TEST(check, RefusesExtentsThatAreNone) {
  auto declared = pipeline({convert("a", {})});
  declared.input.shape = {4, 0};
  EXPECT_THAT(complaint_about(declared), testing::HasSubstr("field 'input': an extent of 0 is given"));
  declared.input.shape = {};
  EXPECT_THAT(complaint_about(declared), testing::HasSubstr("its shape has 0 extents"));
  declared.input.shape = {1, 1, 1, 1, 1, 1, 1};
  EXPECT_THAT(complaint_about(declared), testing::HasSubstr("its shape has 7 extents"));
}

TEST(check, AllowsNamesOfPlainLettersOnly) {
  EXPECT_TRUE(is_name("A.b-c_9"));
  EXPECT_TRUE(is_name(std::string(64, 'a')));
  for (const std::string& name : {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a/b"),
                                  std::string("\xC3\xA9"), std::string("a\0b", 3)}) {
    EXPECT_FALSE(is_name(name)) << name;
  }
}

}  // namespace
}  // namespace penstock
