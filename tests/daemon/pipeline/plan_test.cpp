#include "daemon/pipeline/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/pipeline/check.hpp"
#include "tests/daemon/pipeline/declarations.hpp"
#include "tests/daemon/pipeline/fake_device.hpp"

namespace penstock {
namespace {

class plan_compiler : public testing::Test {
 protected:
  plan compile(const pipeline_declaration& declared, std::uint32_t max_lanes = 8) {
    return compile_plan(check_pipeline(declared), 3, device_, max_lanes);
  }

  std::string complaint_about(const pipeline_declaration& declared) {
    try {
      (void)compile_plan(declared, 0, device_);
    } catch (const configuration_error& error) {
      return error.what();
    }
    return "no complaint";
  }

  fake_device device_;
};

/// Whether two buffers share a byte.
bool overlap(std::size_t left, std::size_t left_bytes, std::size_t right, std::size_t right_bytes) {
  return left < right + right_bytes && right < left + left_bytes;
}
bool overlap(const plan_buffer& left, const plan_buffer& right) {
  return overlap(left.offset, left.bytes, right.offset, right.bytes);
}

TEST_F(plan_compiler, TakesAsManyFramesAsBothLimitsAllow) {
  auto declared = pipeline({convert("a", {})});
  declared.batch = {100, 82'000, {}};
  EXPECT_EQ(compile(declared).max_frames, 40);
  declared.batch = {30, 81'920, {}};
  EXPECT_EQ(compile(declared).max_frames, 30);
  declared.batch = {100, 2048, {}};
  EXPECT_EQ(compile(declared).max_frames, 1);
}

TEST_F(plan_compiler, RefusesABatchThatHoldsNoFrame) {
  auto declared = check_pipeline(pipeline({convert("a", {})}));
  declared.batch.max_bytes = 2047;
  EXPECT_THAT(complaint_about(declared), testing::HasSubstr("pipeline 'test', field 'batch.max_bytes': "));
  declared.batch = {0, 4096, {}};
  EXPECT_THAT(complaint_about(declared), testing::HasSubstr("pipeline 'test', field 'batch.max_frames': "));
}

TEST_F(plan_compiler, CompilesEachStageForItsInputsAndTheMostFrames) {
  auto declared = pipeline({convert("a", {}), stage("s", "moments", {"a"})});
  declared.batch.max_frames = 8;
  const plan made = compile(declared);
  EXPECT_EQ(made.id, 3U);
  ASSERT_EQ(device_.compiled.size(), 2U);
  EXPECT_EQ(device_.compiled[0].op, "convert");
  EXPECT_EQ(device_.compiled[0].inputs, (std::vector<tensor_spec>{{element_type::i16, {1024}, false}}));
  EXPECT_EQ(device_.compiled[1].inputs, (std::vector<tensor_spec>{{element_type::f32, {1024}, false}}));
  EXPECT_EQ(device_.compiled[1].max_frames, 8);
}

TEST_F(plan_compiler, SizesBuffersForTheMostFrames) {
  auto declared = pipeline({convert("a", {})});
  declared.batch.max_frames = 8;
  const plan made = compile(declared);
  EXPECT_EQ(made.buffers[0].name, "input");
  EXPECT_EQ(made.buffers[0].bytes, 8 * 2048U);
  EXPECT_EQ(made.buffers[0].offset, 0U);
  EXPECT_EQ(made.pinned_input_bytes, 8 * 2048U);
  EXPECT_EQ(made.buffers[1].bytes, 8 * 4096U);
  EXPECT_EQ(made.device_bytes, 8 * (2048U + 4096U));
}

TEST_F(plan_compiler, SizesVariableFramesForTheLongest) {
  auto declared = pipeline({convert("a", {})});
  declared.input.variable = true;
  declared.batch.max_frames = 2;
  EXPECT_EQ(compile(declared).pinned_input_bytes, 2 * 2048U);
}

TEST_F(plan_compiler, ReusesTheInputOnceItIsRead) {
  const plan made = compile(pipeline({convert("a", {}), convert("b", {}), convert("c", {})}));
  EXPECT_TRUE(overlap(made.buffers[0], made.buffers[2]));
  EXPECT_FALSE(overlap(made.buffers[0], made.buffers[1]));
  EXPECT_FALSE(overlap(made.buffers[1], made.buffers[2]));
}

TEST_F(plan_compiler, KeepsTheInputForALateReader) {
  const plan made = compile(pipeline({convert("a", {}), convert("b", {}), convert("c", {"input"})}, {"b", "c"}));
  EXPECT_FALSE(overlap(made.buffers[0], made.buffers[1]));
  EXPECT_FALSE(overlap(made.buffers[0], made.buffers[2]));
  EXPECT_FALSE(overlap(made.buffers[0], made.buffers[3]));
}

TEST_F(plan_compiler, KeepsOutputsUntilTheEnd) {
  const plan made =
      compile(pipeline({convert("a", {}), convert("b", {}), convert("c", {}), convert("d", {})}, {"a", "d"}));
  for (std::size_t later = 2; later < made.buffers.size(); ++later) {
    EXPECT_FALSE(overlap(made.buffers[1], made.buffers[later])) << later;
  }
}

TEST_F(plan_compiler, GivesScratchToItsStageAlone) {
  constexpr std::size_t scratch = std::size_t{8} << 20U;
  device_.scratch["moments"] = scratch;
  const plan made =
      compile(pipeline({convert("a", {}), stage("s", "moments", {"a"}), stage("t", "moments", {"a"})}, {"s", "t"}), 1);
  for (const std::size_t index : {1U, 2U}) {
    const plan_stage& runs = made.stages[index];
    EXPECT_EQ(runs.scratch_bytes, scratch);
    EXPECT_EQ(runs.scratch_offset % 256, 0U);
    EXPECT_LE(runs.scratch_offset + scratch, made.device_bytes);
    for (const std::size_t alive : {std::size_t{1}, std::size_t{2}, runs.output}) {
      const plan_buffer& other = made.buffers[alive];
      EXPECT_FALSE(overlap(runs.scratch_offset, scratch, other.offset, other.bytes)) << runs.name << " " << alive;
    }
  }
  EXPECT_LT(made.device_bytes, 2 * scratch) << "two that never run at once share";
}

TEST_F(plan_compiler, GivesBranchesThatRunAtOnceScratchOfTheirOwn) {
  constexpr std::size_t scratch = std::size_t{8} << 20U;
  device_.scratch["moments"] = scratch;
  const plan made =
      compile(pipeline({convert("a", {}), stage("s", "moments", {"a"}), stage("t", "moments", {"a"})}, {"s", "t"}));
  EXPECT_EQ(made.order.lanes, 2U);
  EXPECT_FALSE(overlap(made.stages[1].scratch_offset, scratch, made.stages[2].scratch_offset, scratch));
}

/// input → a → {b → c, d → e} → outputs c and e; b and d are large, what comes of them is small.
pipeline_declaration branches() {
  return pipeline({convert("a", {}), convert("b", {"a"}), stage("c", "moments", {"b"}), convert("d", {"a"}),
                   stage("e", "moments", {"d"})},
                  {"c", "e"});
}

TEST_F(plan_compiler, KeepsTheBuffersOfParallelBranchesApart) {
  const plan made = compile(branches());
  EXPECT_EQ(made.order.lanes, 2U);
  for (const std::size_t left : {2U, 3U}) {
    for (const std::size_t right : {4U, 5U}) {
      EXPECT_FALSE(overlap(made.buffers[left], made.buffers[right])) << left << " " << right;
    }
  }
}

TEST_F(plan_compiler, SharesTheBuffersOfBranchesThatRunOneAfterTheOther) {
  const plan made = compile(branches(), 1);
  EXPECT_EQ(made.order.lanes, 1U);
  EXPECT_TRUE(overlap(made.buffers[2], made.buffers[4]) || made.buffers[4].offset == 0)
      << "d lies where b or the input was";
  EXPECT_LT(made.device_bytes, compile(branches()).device_bytes);
}

TEST_F(plan_compiler, LetsTwoBuffersShareOnlyWhereOneIsOverBeforeTheOtherBegins) {
  for (std::uint32_t lanes = 1; lanes <= 3; ++lanes) {
    const plan made = compile(
        pipeline({convert("a", {}), convert("b", {"a"}), convert("c", {"b"}), convert("d", {"a"}), convert("e", {"d"}),
                  convert("f", {"input"}), stage("g", "moments", {"f"}), stage("h", "moments", {"c"})},
                 {"e", "g", "h"}),
        lanes);
    const auto over = [&](std::size_t one, std::size_t other) {
      bool all = made.order.before(one, other);
      for (std::size_t reader = 0; reader < made.stages.size(); ++reader) {
        const auto& inputs = made.stages[reader].inputs;
        const bool reads = std::find(inputs.begin(), inputs.end(), one) != inputs.end();
        all = all && (!reads || made.order.before(reader + 1, other));
      }
      for (std::size_t output = 0; output < made.outputs.size(); ++output) {
        const std::size_t copy = made.stages.size() + 1 + output;
        all = all && (made.outputs[output].buffer != one || made.order.before(copy, other));
      }
      return all;
    };
    bool shared = false;
    for (std::size_t left = 0; left < made.buffers.size(); ++left) {
      for (std::size_t right = 0; right < left; ++right) {
        const bool overlapping = overlap(made.buffers[left], made.buffers[right]);
        shared = shared || overlapping;
        EXPECT_TRUE(!overlapping || over(left, right) || over(right, left))
            << made.buffers[left].name << " and " << made.buffers[right].name << " on " << lanes << " lanes";
      }
    }
    EXPECT_TRUE(shared) << lanes;
  }
}

TEST_F(plan_compiler, CopiesEachOutputOutOnTheLaneOfItsStage) {
  const plan made = compile(branches());
  ASSERT_EQ(made.order.steps.size(), 1U + 5U + 2U);
  EXPECT_EQ(made.order.steps[6].lane, made.order.steps[3].lane);
  EXPECT_EQ(made.order.steps[7].lane, made.order.steps[5].lane);
  EXPECT_EQ(made.order.joins.size(), 1U);
}

TEST_F(plan_compiler, LaysOutputsOutInTheirDeclaredOrder) {
  auto declared =
      pipeline({convert("a", {}), stage("s", "moments", {"a"}), stage("p", "power_spectrum", {"a"})}, {"p", "s", "a"});
  declared.batch.max_frames = 3;
  const plan made = compile(declared);
  ASSERT_EQ(made.outputs.size(), 3U);
  EXPECT_EQ(made.outputs[0].name, "p");
  EXPECT_EQ(made.outputs[0].op, "power_spectrum");
  EXPECT_EQ(made.outputs[0].buffer, 3U);
  EXPECT_EQ(made.output_spec(0), made.declaration.stages[2].output);
  EXPECT_EQ(made.outputs[0].pinned_offset, 0U);
  EXPECT_EQ(made.outputs[1].pinned_offset, (3 * made.output_spec(0).bytes() + 255) / 256 * 256);
  EXPECT_EQ(made.outputs[2].pinned_offset % 256, 0U);
  EXPECT_GE(made.outputs[2].pinned_offset, made.outputs[1].pinned_offset + 3 * made.output_spec(1).bytes());
  EXPECT_EQ(made.pinned_output_bytes, made.outputs[2].pinned_offset + std::size_t{3} * 4096);
}

TEST_F(plan_compiler, GivesEachOutputOfAStageABuffer) {
  auto declared = pipeline({two_outputs("vad", {}), convert("a", {"vad.loud"}), convert("b", {"vad.level"})},
                           {"vad.level", "a", "b"});
  declared.batch.max_frames = 3;
  const plan made = compile(declared);
  ASSERT_EQ(made.buffers.size(), 5U);
  EXPECT_EQ(made.stages[0].output, 1U);
  EXPECT_EQ(made.stages[0].outputs, 2U);
  EXPECT_EQ(made.buffers[1].name, "vad.level");
  EXPECT_EQ(made.stages[1].inputs, std::vector<std::size_t>{2});
  EXPECT_EQ(made.stages[2].inputs, std::vector<std::size_t>{1});
  EXPECT_EQ(made.outputs[0].op, "kernel");
  EXPECT_EQ(made.outputs[2].op, "convert");
  // Both matter while the two branches run.
  EXPECT_FALSE(overlap(made.buffers[1], made.buffers[2]));
  EXPECT_FALSE(overlap(made.buffers[1], made.buffers[3]));
  EXPECT_EQ(made.order.steps.size(), 1U + 3U + 3U);
}

TEST_F(plan_compiler, WiresStagesToTheBuffersTheyRead) {
  const plan made = compile(pipeline({convert("b", {"a"}), convert("a", {"input"})}, {"b"}));
  EXPECT_EQ(made.stages[0].name, "a");
  EXPECT_EQ(made.stages[0].inputs, std::vector<std::size_t>{0});
  EXPECT_EQ(made.stages[0].output, 1U);
  EXPECT_EQ(made.stages[1].inputs, std::vector<std::size_t>{1});
  EXPECT_EQ(made.stages[1].output, 2U);
}

TEST_F(plan_compiler, KnowsWhetherTheInputAndTheOutputsAreGoneOverOnce) {
  device_.single_pass = {"convert", "magnitude"};
  const auto once = [&](std::vector<stage_declaration> stages, std::vector<std::string> outputs) {
    auto declared = pipeline(std::move(stages));
    declared.outputs = std::move(outputs);
    return compile(declared).single_pass;
  };
  EXPECT_TRUE(once({convert("a", {})}, {"a"}));
  // Whatever the stages between the first and the last do.
  EXPECT_TRUE(once({convert("a", {}), stage("p", "power_spectrum", {"a"}), convert("b", {"p"})}, {"b"}));
  // The last does not.
  EXPECT_FALSE(once({convert("a", {}), stage("s", "moments", {"a"})}, {"s"}));
  // Two read the input.
  EXPECT_FALSE(once({convert("a", {}), convert("b", {})}, {"a", "b"}));
  // An output is read by another stage.
  EXPECT_FALSE(once({convert("a", {}), convert("b", {"a"})}, {"a", "b"}));
  // The first does not.
  device_.single_pass = {"moments"};
  EXPECT_FALSE(once({convert("a", {}), stage("s", "moments", {"a"})}, {"s"}));
}

TEST_F(plan_compiler, LetsTheResultLieWhereTheInputDoesOnlyWhereNobodyNeedsItAnyMore) {
  const auto rewrites = [&](std::vector<stage_declaration> stages, std::vector<std::string> outputs,
                            tensor_spec input = {element_type::f32, {512}, false}) {
    auto declared = pipeline(std::move(stages), std::move(outputs));
    declared.input = std::move(input);
    return compile(declared).rewrites_input;
  };
  const auto affine = [](std::string name, std::string from) { return stage(std::move(name), "affine", {from}); };
  EXPECT_TRUE(rewrites({affine("a", "input")}, {"a"}));
  EXPECT_TRUE(rewrites({affine("a", "input")}, {"a"}, {element_type::f32, {512, 2}, true}));
  // By then all that read the input are done.
  EXPECT_TRUE(rewrites({affine("a", "input"), stage("m", "multiply", {"a", "a"})}, {"m"}));
  EXPECT_TRUE(rewrites({affine("a", "input"), affine("b", "input"), stage("m", "multiply", {"a", "b"})}, {"m"}));
  // The stage itself reads it, and does not bear that.
  EXPECT_FALSE(rewrites({affine("a", "input"), stage("m", "multiply", {"a", "input"})}, {"m"}));
  EXPECT_FALSE(rewrites({stage("m", "multiply", {"input", "input"})}, {"m"}));
  // Two outputs, of which one would come before the other's stage.
  EXPECT_FALSE(rewrites({affine("a", "input"), affine("b", "input")}, {"a", "b"}));
  // Of another size.
  EXPECT_FALSE(rewrites({stage("m", "moments", {"input"})}, {"m"}));
  EXPECT_FALSE(rewrites({stage("m", "magnitude", {"input"})}, {"m"}, {element_type::cf32, {512}, false}));
  // State.
  EXPECT_FALSE(rewrites({stage("f", "fir", {"input"}, {{"taps", std::vector<double>{1.0, 2.0}}})}, {"f"},
                        {element_type::f32, {512}, true}));
}

TEST_F(plan_compiler, LetsOnlyTheFirstOfSeveralOutputsLieWhereTheInputDoes) {
  device_.overwrites = {"kernel"};
  const auto rewrites = [&](const std::string& output) {
    auto declared = pipeline({two_outputs("vad", {})}, {output});
    declared.input = output == "vad.level" ? tensor_spec{element_type::f32, {4}, false}
                                           : tensor_spec{element_type::f32, {1024}, false};
    return compile(declared).rewrites_input;
  };
  EXPECT_TRUE(rewrites("vad.level"));
  EXPECT_FALSE(rewrites("vad.loud"));
}

TEST_F(plan_compiler, SaysWhichStageTheDeviceRefuses) {
  auto declared = check_pipeline(pipeline({convert("a", {}), stage("s", "moments", {"a"})}));
  device_.refused = "moments";
  EXPECT_EQ(complaint_about(declared), "test.toml:7: pipeline 'test', stage 's', field 'field': not on this device");
  declared.stages[1].lines["field"] = 9;
  EXPECT_EQ(complaint_about(declared), "test.toml:9: pipeline 'test', stage 's', field 'field': not on this device");
}

TEST_F(plan_compiler, SaysAtWhichStageTheDeviceFails) {
  const auto declared = check_pipeline(pipeline({convert("a", {}), stage("s", "moments", {"a"})}));
  device_.broken = "moments";
  try {
    (void)compile_plan(declared, 0, device_);
    FAIL() << "compiled";
  } catch (const device_error& error) {
    EXPECT_STREQ(error.what(), "test.toml:7: pipeline 'test', stage 's': no such kernel");
  }
}

TEST_F(plan_compiler, RefusesBuffersThatNoAddressSpaceHolds) {
  const auto declared = check_pipeline(pipeline({convert("a", {})}));
  device_.scratch["convert"] = std::numeric_limits<std::size_t>::max() - 10;
  EXPECT_EQ(complaint_about(declared),
            "test.toml:2: pipeline 'test', field 'batch': the buffers of a batch do not fit the address space");
}

stage_declaration accumulate(std::string name, std::vector<std::string> from) {
  return stage(std::move(name), "accumulate", std::move(from), {{"frames", std::int64_t{4}}});
}

/// Plans of f32 frames, for a device that says how much state there is.
class plan_of_sessions : public testing::Test {
 protected:
  plan compile(std::vector<stage_declaration> stages, bool variable, std::vector<std::string> outputs = {}) {
    pipeline_declaration declared = pipeline(std::move(stages), std::move(outputs));
    declared.input = {element_type::f32, {960}, variable};
    declared.batch.max_frames = 8;
    return compile_plan(check_pipeline(declared), 0, device_);
  }

  fake_device device_;
};

TEST_F(plan_of_sessions, KeepsNoStateWhereNoStageDoes) {
  const plan made = compile({stage("s", "moments", {})}, false);
  EXPECT_FALSE(made.keeps_state());
  EXPECT_EQ(made.state_bytes, 0U);
  EXPECT_EQ(made.pinned_input_bytes, 8 * 960 * sizeof(float));
  EXPECT_FALSE(made.stages[0].state.has_value());
}

TEST_F(plan_of_sessions, LaysTheStatesOfItsStagesOneBehindTheOther) {
  device_.state = {{"fir", 1000}, {"accumulate", 257}};
  const plan made = compile({fir("a", {}, 1), stage("m", "moments", {"a"}), accumulate("b", {"a"}), fir("c", {"b"}, 1)},
                            false, {"m", "c"});
  EXPECT_EQ(made.keepers, (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(made.stages[0].state.value().offset, 0U);
  EXPECT_EQ(made.stages[2].state.value().offset, 1024U);
  EXPECT_EQ(made.stages[3].state.value().offset, 1024U + 512U);
  EXPECT_EQ(made.state_bytes, 1024U + 512U + 1024U);
  EXPECT_FALSE(made.stages[1].state.has_value());
}

TEST_F(plan_of_sessions, TakesNoMoreFramesThanTheirStepsFill) {
  pipeline_declaration declared = pipeline({stage("v", "convert", {}), reframe("rows", {"v"}, 96'000)}, {});
  declared.input = {element_type::i16, {32'000}, true};
  declared.batch.max_frames = 256;
  declared.batch.max_bytes = std::size_t{16} << 20U;
  const plan made = compile_plan(check_pipeline(declared), 0, device_);
  EXPECT_EQ(made.max_frames, 86);
  EXPECT_LE(made.device_bytes, std::size_t{48} << 20U);
}

TEST_F(plan_of_sessions, TakesAllOfItsFramesWhereTheyAreSmall) {
  pipeline_declaration declared = pipeline({reframe("rows", {}, 1000)}, {});
  declared.input = {element_type::f32, {30}, true};
  declared.batch.max_frames = 256;
  EXPECT_EQ(compile_plan(check_pipeline(declared), 0, device_).max_frames, 256);
}

TEST_F(plan_of_sessions, AreNotGoneOverOnce) {
  device_.single_pass = {"moments"};
  EXPECT_TRUE(compile({stage("m", "moments", {})}, false).single_pass);
  device_.single_pass = {"affine", "fir"};
  const auto affine = [](std::string name, std::vector<std::string> from) {
    return stage(std::move(name), "affine", std::move(from), {{"a", 2.0}, {"b", 0.0}});
  };
  EXPECT_TRUE(compile({affine("a", {}), affine("b", {"a"})}, false).single_pass);
  EXPECT_FALSE(compile({affine("a", {}), fir("k", {"a"}, 1), affine("b", {"k"})}, false).single_pass);
}

TEST_F(plan_of_sessions, RunTheirBranchesOnLanesOfTheirOwn) {
  const plan made = compile({fir("a", {"input"}, 1), fir("b", {"input"}, 1), fir("c", {"a"}, 1)}, false, {"b", "c"});
  EXPECT_EQ(made.order.lanes, 2U);
  EXPECT_NE(made.order.steps[1].lane, made.order.steps[2].lane);
  EXPECT_EQ(made.order.steps[1].lane, made.order.steps[3].lane);
}

TEST_F(plan_of_sessions, HasATableOfFramesForEachKeeperBehindTheInput) {
  const plan made = compile({fir("a", {}, 1), stage("m", "moments", {"a"}), accumulate("b", {"a"})}, false, {"m", "b"});
  constexpr std::size_t input = 8 * 960 * sizeof(float);
  constexpr std::size_t table = 8 * 2 * sizeof(session_frame);
  static_assert(input % 256 == 0);
  EXPECT_EQ(made.frame_table_pinned, input);
  EXPECT_EQ(made.pinned_input_bytes, input + table);
  EXPECT_EQ(made.frame_table_offset % 256, 0U);
  EXPECT_LE(made.frame_table_offset + table, made.device_bytes);
  for (const std::size_t alive : {0U, 1U, 3U}) {
    const plan_buffer& other = made.buffers[alive];
    EXPECT_TRUE(made.frame_table_offset >= other.offset + other.bytes ||
                other.offset >= made.frame_table_offset + table)
        << other.name;
  }
}

TEST_F(plan_of_sessions, BeginsTheTableAtAMultipleOf256) {
  pipeline_declaration declared = pipeline({fir("a", {}, 1)});
  declared.input = {element_type::f32, {10}, false};
  declared.batch.max_frames = 3;
  const plan made = compile_plan(check_pipeline(declared), 0, device_);
  EXPECT_EQ(made.frame_table_pinned, 256U);
  EXPECT_EQ(made.pinned_input_bytes, 256U + 3 * sizeof(session_frame));
}

TEST_F(plan_of_sessions, CountsTheStepsOfFixedFramesByTheFrame) {
  const plan made = compile(
      {fir("a", {}, 4), fir("b", {}, 2), stage("m", "affine", {}, {{"a", 2.0}, {"b", 0.0}}), accumulate("c", {})},
      false);
  EXPECT_EQ(made.stages[0].state.value().position(3, 0), 3 * 960);
  EXPECT_EQ(made.stages[1].state.value().position(3, 0), 3 * 240);
  EXPECT_EQ(made.stages[3].state.value().position(3, 0), 3) << "a step of it is a frame";
  EXPECT_EQ(made.period, 1);
  EXPECT_EQ(made.buffers[1].pitch(960), 240 * sizeof(float));
}

TEST_F(plan_of_sessions, CountsTheStepsOfFramesAlongTheAxisOfTime) {
  stage_declaration slow = fir("slow", {}, 4);
  slow.settings.set("axis", std::int64_t{-1});
  stage_declaration slower = fir("slower", {}, 2);
  slower.settings.set("axis", std::int64_t{1});
  pipeline_declaration declared = pipeline({slow, slower});
  declared.input = {element_type::f32, {8, 960}, false};
  const plan made = compile_plan(check_pipeline(declared), 0, device_);
  EXPECT_EQ(made.stages[0].state.value().position(3, 0), 3 * 960);
  EXPECT_EQ(made.stages[1].state.value().position(3, 0), 3 * 240);
  EXPECT_EQ(made.period, 1);
  EXPECT_EQ(made.frame_steps(8), 960);
  EXPECT_EQ(made.output_spec(0).text(), "f32[8, 120]");
}

TEST_F(plan_of_sessions, CountsTheStepsOfVariableFramesThroughTheRatesBefore) {
  const plan made = compile({fir("a", {}, 4), fir("b", {}, 3), reframe("c", {}, 5)}, true);
  for (const std::int64_t taken : {0, 1, 4, 5, 12, 13, 959, 960, 100'003}) {
    const std::int64_t after_a = (taken + 3) / 4;
    const std::int64_t after_b = (after_a + 2) / 3;
    EXPECT_EQ(made.stages[0].state.value().position(7, taken), taken);
    EXPECT_EQ(made.stages[1].state.value().position(7, taken), after_a);
    EXPECT_EQ(made.stages[2].state.value().position(7, taken), after_b);
    EXPECT_EQ(made.buffers[3].rate.total(taken), after_b / 5);
  }
}

TEST_F(plan_of_sessions, RepeatsAfterThePeriodsOfAllItsVariableBuffers) {
  EXPECT_EQ(compile({fir("a", {}, 4), fir("b", {}, 6)}, true).period, 24);
  EXPECT_EQ(compile({fir("a", {}, 4), fir("b", {"a"}, 6), fir("c", {"a"}, 10)}, true, {"b", "c"}).period, 120);
  EXPECT_EQ(compile({fir("a", {}, 1)}, true).period, 1);
}

TEST_F(plan_of_sessions, TakesOneFrameARequestWhereNoNumberHoldsTheirCommonPeriod) {
  constexpr std::int64_t primes[] = {65521, 65519, 65497, 65479};
  std::vector<stage_declaration> stages;
  std::vector<std::string> outputs;
  for (const std::int64_t each : primes) {
    outputs.push_back("by" + std::to_string(each));
    stages.push_back(fir(outputs.back(), {"input"}, each));
  }
  EXPECT_EQ(compile(stages, true, outputs).period, 961) << "no frame is so long";
}

TEST_F(plan_of_sessions, TakesOneFrameARequestWhereOverlappingRowsBeginLate) {
  stage_declaration rows = reframe("rows", {}, 8);
  rows.settings.set("hop", std::int64_t{4});
  EXPECT_EQ(compile({rows}, true).period, 961) << "no frame is so long";
  rows.settings.set("padding", std::int64_t{4});
  EXPECT_EQ(compile({rows}, true).period, 4);
}

TEST_F(plan_of_sessions, SpacesFramesForTheMostThatALeadingExtentCanGive) {
  const plan made = compile({fir("a", {}, 4), reframe("b", {}, 5)}, true);
  EXPECT_EQ(made.buffers[0].pitch(10), 10 * sizeof(float));
  EXPECT_EQ(made.buffers[1].pitch(10), 3 * sizeof(float)) << "10 steps hold 2 or 3 multiples of 4";
  EXPECT_EQ(made.buffers[2].pitch(10), 1 * 5 * sizeof(float)) << "at most one frame of 5";
  EXPECT_EQ(made.buffers[1].pitch(960), 240 * sizeof(float));
  EXPECT_EQ(made.buffers[1].bytes, 8 * made.buffers[1].pitch(960));
  EXPECT_EQ(made.buffers[2].bytes, 8 * made.buffers[2].pitch(960));
}

}  // namespace
}  // namespace penstock
