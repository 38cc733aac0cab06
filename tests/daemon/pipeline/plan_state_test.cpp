#include <gtest/gtest.h>

#include "daemon/pipeline/check.hpp"
#include "daemon/pipeline/plan.hpp"
#include "tests/daemon/pipeline/declarations.hpp"
#include "tests/daemon/pipeline/fake_device.hpp"

namespace penstock {
namespace {

using numbers = std::vector<double>;

stage_declaration fir(std::string name, std::vector<std::string> from, std::int64_t decimation) {
  return stage(std::move(name), "fir", std::move(from), {{"taps", numbers{0.5, 0.5}}, {"decimation", decimation}});
}

stage_declaration reframe(std::string name, std::vector<std::string> from, std::int64_t length) {
  return stage(std::move(name), "reframe", std::move(from), {{"length", length}});
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
  EXPECT_LE(made.arena_bytes, std::size_t{48} << 20U);
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
  EXPECT_LE(made.frame_table_offset + table, made.arena_bytes);
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
