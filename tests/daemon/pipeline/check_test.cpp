#include "daemon/pipeline/check.hpp"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/pipeline/declarations.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using names = std::vector<std::string>;

std::string complaint_about(const pipeline_declaration& declared) {
  try {
    (void)check_pipeline(declared);
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

TEST(check, LetsAStageHaveSeveralOutputs) {
  const auto checked =
      check_pipeline(pipeline({two_outputs("vad", {}), convert("out", {"vad.level"})}, {"out", "vad.loud"}));
  EXPECT_EQ(checked.stages[1].output, (tensor_spec{element_type::f32, {4}, false}));
  EXPECT_EQ(checked.stages[0].named_outputs,
            (std::vector<operator_output>{{"vad.level", {element_type::f32, {4}, false}},
                                          {"vad.loud", {element_type::f32, {1024}, false}}}));
  EXPECT_EQ(check_pipeline(pipeline({two_outputs("vad", {})})).outputs, (names{"vad.level", "vad.loud"}));
}

TEST(check, NamesTheOutputsThatAStageHas) {
  EXPECT_THAT(
      complaint_about(pipeline({two_outputs("vad", {}), convert("out", {})})),
      HasSubstr("stage 'out', field 'from': there is no 'vad': stage 'vad' has the outputs 'vad.level', 'vad.loud'"));
  EXPECT_THAT(complaint_about(pipeline({two_outputs("vad", {}), convert("out", {"vad.levl"})})),
              HasSubstr("did you mean 'vad.level'?"));
  EXPECT_THAT(complaint_about(pipeline({two_outputs("vad", {})}, {"vad"})), HasSubstr("stage 'vad' has the outputs"));
  EXPECT_THAT(complaint_about(pipeline({convert("a", {}), convert("b", {"a.x"})})),
              HasSubstr("there is no 'a.x': stage 'a' has one output: read 'a'"));
  EXPECT_THAT(complaint_about(pipeline({two_outputs("vad", {}), convert("vad.loud", {"vad.level"})})),
              HasSubstr("its output 'vad.loud' has the name of another stage"));
  pipeline_declaration named = pipeline({two_outputs("vad", {"signal"}), convert("out", {"vad.loud"})});
  named.inputs = {{"signal", named.input}, {"vad.loud", named.input}};
  EXPECT_THAT(complaint_about(named), HasSubstr("its output 'vad.loud' has the name of an input"));
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
  auto wrong = stage("a", "convrt", {});
  wrong.lines["op"] = 42;
  EXPECT_THAT(
      complaint_about(pipeline({wrong})),
      testing::StartsWith("test.toml:42: pipeline 'test', stage 'a', field 'op': there is no operator 'convrt'; "
                          "did you mean 'convert'?"));
  EXPECT_THAT(complaint_about(pipeline({stage("a", "convrt", {})})), testing::StartsWith("test.toml:7: "));
}

TEST(check, NamesTheLineAsDeclaredAlthoughStagesMove) {
  auto wrong = stage("b", "convert", {"a"}, {{"to", std::string("f31")}});
  wrong.lines["to"] = 42;
  EXPECT_THAT(complaint_about(pipeline({wrong, convert("a", {"input"})}, {"b"})),
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

/// A pipeline of at most 960 f32 steps a frame.
pipeline_declaration variable_pipeline(std::vector<stage_declaration> stages, std::vector<std::string> outputs = {}) {
  pipeline_declaration made = pipeline(std::move(stages), std::move(outputs));
  made.input = {element_type::f32, {960}, true};
  return made;
}

TEST(check, FollowsTheLengthOfVariableFramesThroughTheStages) {
  const auto checked = check_pipeline(variable_pipeline({fir("a", {}, 4), reframe("b", {}, 5)}));
  EXPECT_EQ(checked.stages[0].output, (tensor_spec{element_type::f32, {240}, true}));
  EXPECT_EQ(checked.stages[1].output, (tensor_spec{element_type::f32, {48, 5}, true}));
  EXPECT_EQ(checked.stages[0].rate, step_rates{}.then({4, 3}));
  EXPECT_EQ(checked.stages[1].rate, step_rates{}.then({4, 3}).then({5, 0}));
  EXPECT_TRUE(checked.stages[0].session.has_value());
}

TEST(check, TakesNoMoreTunableNumbersThanOneMessageTellsOf) {
  const auto tuned = [](int count) {
    std::vector<stage_declaration> stages;
    for (int number = 0; number < count; ++number) {
      stages.push_back(stage("s" + std::to_string(number), "affine", {}));
      stages.back().tunable = {"a", "b"};
    }
    return variable_pipeline(std::move(stages));
  };
  EXPECT_EQ(complaint_about(tuned(128)), "no complaint");
  EXPECT_EQ(complaint_about(tuned(129)),
            "test.toml:7: pipeline 'test', stage 's128', field 'tunable': would have 258 numbers travel with each "
            "frame, all that such stages have; allowed are at most 256");
}

TEST(check, RefusesResultsThatNoMemoryHolds) {
  const auto events = [](std::string name) {
    return stage(std::move(name), "detect", {}, {{"high", 1.0}, {"max_events", std::int64_t{65535}}});
  };
  EXPECT_EQ(complaint_about(variable_pipeline({reframe("rows", {}, 2), events("a"), events("b")})), "no complaint");
  EXPECT_THAT(complaint_about(variable_pipeline({reframe("rows", {}, 2), events("a"), events("b"), events("c")})),
              HasSubstr("stage 'c': its result, f32[max 480, 65536, 65536, 65536, 2], is larger than memory can be"));
}

TEST(check, RefusesRatesBeyondWhatCountsTheStepsOfASession) {
  constexpr std::int64_t block = std::int64_t{1} << 24;
  const auto means = [](std::string name, std::int64_t every) {
    return stage(std::move(name), "accumulate", {},
                 {{"frames", std::int64_t{1}}, {"along", std::string("rows")}, {"every", every}});
  };
  EXPECT_EQ(complaint_about(variable_pipeline({means("a", block), means("b", block)})), "no complaint");
  EXPECT_EQ(complaint_about(variable_pipeline({means("a", block), means("b", block), means("c", 2)})),
            "test.toml:7: pipeline 'test', stage 'c': a step of its result would stand for more than 281474976710656 "
            "steps of the pipeline's input, or the rates up to it would have no shorter period");
  stage_declaration overlapping = reframe("c", {}, 3);  // a step of its result begins two of them before its end
  overlapping.settings.set("hop", std::int64_t{1});
  EXPECT_THAT(complaint_about(variable_pipeline({means("a", block), means("b", block), overlapping})),
              HasSubstr("stage 'c': a step of its result would stand for more"));
  const auto rational = [](std::string name, std::int64_t up, std::int64_t down) {
    return stage(std::move(name), "resample", {}, {{"up", up}, {"down", down}, {"taps", std::vector<double>{1.0}}});
  };
  EXPECT_EQ(complaint_about(variable_pipeline({rational("a", 65521, 65519), rational("b", 65519, 65521)})),
            "no complaint");
  EXPECT_THAT(complaint_about(variable_pipeline({rational("a", 65521, 65519), rational("b", 65497, 65479)})),
              HasSubstr("stage 'b': a step of its result would stand for more than"));
  stage_declaration late = fir("c", {}, 1);
  late.settings.set("taps", std::vector<double>{1, 1, 1, 1, 1});
  EXPECT_THAT(complaint_about(variable_pipeline({means("a", block), means("b", block), late})),
              HasSubstr("stage 'c': its result would be late by more than 281474976710656 steps of the pipeline's"));
}

TEST(check, CountsNoRateWhereEveryStepGivesOne) {
  const auto checked = check_pipeline(variable_pipeline({fir("a", {}, 1), stage("m", "moments", {"a"})}));
  EXPECT_FALSE(checked.stages[0].rate.ragged());
  EXPECT_FALSE(checked.stages[1].session.has_value());
}

TEST(check, RefusesToMakeOneResultOfAFrameWhoseLengthDependsOnWhatCameBefore) {
  EXPECT_EQ(complaint_about(variable_pipeline({fir("a", {}, 4), stage("m", "moments", {"a"})})),
            "test.toml:7: pipeline 'test', stage 'm', field 'from': its input's length differs from frame to frame, so "
            "nothing can be made of a frame as a whole; a 'reframe' stage before it makes frames of one length");
  EXPECT_EQ(complaint_about(variable_pipeline(
                {fir("a", {}, 4), reframe("b", {}, 5), stage("m", "affine", {}, {{"a", 2.0}, {"b", 0.0}})})),
            "no complaint");
  // What gives as many results as it takes, but each of all of them.
  const auto mapped = [](const char* expression) {
    return stage("m", "map", {"a"}, {{"expr", std::string(expression)}});
  };
  for (const auto& each : {stage("m", "detrend", {"a"}), mapped("x * i0 / n0")}) {
    EXPECT_THAT(complaint_about(variable_pipeline({fir("a", {}, 4), each})),
                testing::HasSubstr("differs from frame to frame"));
    EXPECT_EQ(complaint_about(variable_pipeline({fir("a", {}, 1), each})), "no complaint");
  }
  EXPECT_EQ(complaint_about(variable_pipeline({fir("a", {}, 4), mapped("x * i0")})), "no complaint");
}

TEST(check, RefusesInputsWhoseLengthsDisagreeAlthoughTheirShapesAgree) {
  const auto declared = [](std::int64_t left, std::int64_t right) {
    return variable_pipeline({fir("a", {"input"}, left), fir("b", {"input"}, right), stage("sum", "add", {"a", "b"})});
  };
  const auto once = check_pipeline(declared(500, 500));
  EXPECT_EQ(once.stages[2].rate, step_rates{}.then({500, 499}));
  EXPECT_EQ(once.stages[0].output, (tensor_spec{element_type::f32, {2}, true}));
  EXPECT_EQ(complaint_about(declared(500, 700)),
            "test.toml:7: pipeline 'test', stage 'sum', field 'from': its inputs have frames of different lengths: 'b' "
            "has another rate, or gives its steps at other moments");
}

TEST(check, RefusesDropOldestWhereAStageKeepsState) {
  auto declared = variable_pipeline({fir("a", {}, 1)});
  declared.overflow = overflow_policy::drop_oldest;
  declared.lines["overflow"] = 5;
  EXPECT_EQ(
      complaint_about(declared),
      "test.toml:5: pipeline 'test', field 'overflow': \"drop-oldest\" would tear a hole into what the pipeline's "
      "stages keep; use \"reject\"");
  declared.stages = {stage("m", "moments", {})};
  EXPECT_EQ(complaint_about(declared), "no complaint");
}

TEST(check, RefusesASourceThatIsNotThere) {
  EXPECT_EQ(complaint_about(pipeline({convert("first", {}), convert("b", {"frist"})})),
            "test.toml:7: pipeline 'test', stage 'b', field 'from': there is no stage 'frist'; did you mean 'first'?");
  EXPECT_EQ(complaint_about(pipeline({convert("first", {}), convert("bend", {"band"})})),
            "test.toml:7: pipeline 'test', stage 'bend', field 'from': there is no stage 'band'; known: first, input")
      << "a stage does not read itself";
}

TEST(check, RefusesAnElementTypeThatAnOperatorDoesNotTake) {
  EXPECT_THAT(complaint_about(pipeline({fir("a", {}, 1)})),
              testing::StartsWith("test.toml:7: pipeline 'test', stage 'a', field 'from': "));
}

TEST(check, AllowsNamesOfPlainLettersOnly) {
  EXPECT_TRUE(is_name("A.b-c_9"));
  EXPECT_TRUE(is_name(std::string(64, 'a')));
  for (const std::string& name : {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a/b"),
                                  std::string("\xC3\xA9"), std::string("a\0b", 3)}) {
    EXPECT_FALSE(is_name(name)) << name;
  }
}

pipeline_declaration checked(const tensor_spec& input, std::vector<stage_declaration> stages) {
  pipeline_declaration made = pipeline(std::move(stages));
  made.input = input;
  return check_pipeline(made);
}

tensor_spec reals(std::vector<std::int64_t> shape, bool variable = false) {
  return {element_type::f32, std::move(shape), variable};
}

stage_declaration zscore() {
  return stage("z", "moving_zscore", {}, {{"window", std::int64_t{16}}});
}

stage_declaration planar() {
  return stage("rows", "convert", {}, {{"planar", true}});
}

/// One row for each so many steps.
time_extent rows(std::int64_t steps) {
  return {.steps = steps};
}

TEST(TimeExtentsOfStages, AreThoseOfDecimationsAndBlocksTogether) {
  const auto made = checked(
      reals({4096}, true),
      {stage("slow", "fir", {}, {{"taps", std::vector<double>{1}}, {"decimation", std::int64_t{8}}}),
       reframe("blocks", {}, 32), stage("psd", "power_spectrum", {}), stage("events", "detect", {}, {{"high", 1.0}})});
  EXPECT_THAT(time_extents_of_stages(made), testing::ElementsAre(rows(8), rows(256), rows(256), rows(256)));
}

TEST(TimeExtentsOfStages, AreKnownOfFramesOfOneLengthToo) {
  EXPECT_THAT(
      time_extents_of_stages(checked(reals({1024}), {reframe("blocks", {}, 256), stage("psd", "power_spectrum", {})})),
      testing::ElementsAre(rows(256), rows(256)));
}

TEST(TimeExtentsOfStages, AreNoneWhereTheFirstDimensionIsNoTime) {
  EXPECT_THAT(time_extents_of_stages(checked(reals({1024}), {stage("psd", "power_spectrum", {})})),
              testing::ElementsAre(rows(0)));
  EXPECT_THAT(time_extents_of_stages(checked(reals({1024, 2}), {planar(), stage("psd", "power_spectrum", {})})),
              testing::ElementsAre(rows(0), rows(0)));
}

stage_declaration fir_of(std::string name, std::vector<double> taps, std::int64_t decimation) {
  return stage(std::move(name), "fir", {}, {{"taps", std::move(taps)}, {"decimation", decimation}});
}

/// Where the first outputs of each stage stand after so many steps of a session.
std::vector<std::int64_t> next_of(const pipeline_declaration& made, std::int64_t taken) {
  std::vector<std::int64_t> all;
  for (const step_timing& each : timing_of_stages(made)) {
    all.push_back(each.next(taken));
  }
  return all;
}

TEST(TimeExtentsOfStages, AreNoneOfAClockWhichGivesABlockOfFramesOfAnyLength) {
  const auto made =
      checked(reals({4096}, true), {fir_of("slow", {1}, 8), stage("bits", "clock", {}, {{"omega", 5.0}})});
  EXPECT_THAT(time_extents_of_stages(made), testing::ElementsAre(rows(8), rows(0)));
  EXPECT_FALSE(made.stages[1].output.variable);
}

TEST(TimingOfStages, FollowsDecimationsBlocksAndDelays) {
  const auto made = checked(reals({4096}, true), {fir_of("slow", {1, 2, 1}, 8), reframe("blocks", {}, 32),
                                                  stage("psd", "power_spectrum", {}), zscore()});
  EXPECT_THAT(next_of(made, 0), testing::ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT(next_of(made, 1), testing::ElementsAre(7, -1, -1, -1));
  EXPECT_THAT(next_of(made, 8 * 31 + 1), testing::ElementsAre(8 * 32 - 1, 255, 255, 255)) << "the 32nd has come";
  EXPECT_THAT(next_of(made, 1000), testing::ElementsAre(999, 767, 767, 767));
}

TEST(TimingOfStages, RoundsHalfAStepDownAtTheEnd) {
  const auto made = checked(reals({4096}, true), {fir_of("one", {1, 1}, 2), fir_of("two", {1, 1}, 3)});
  EXPECT_THAT(next_of(made, 0), testing::ElementsAre(-1, -2)) << "0.5 and 0.5 + 2 · 0.5";
  EXPECT_THAT(next_of(made, 7), testing::ElementsAre(7, 10));
}

TEST(TimingOfStages, TakesNoDelayOfAFilterWithoutLinearPhase) {
  const auto made = checked(reals({4096}, true), {fir_of("one", {3, 2, 1}, 1)});
  EXPECT_THAT(next_of(made, 5), testing::ElementsAre(5));
}

TEST(TimingOfStages, IsThatOfTheFrameWhereTheFirstDimensionIsNoTime) {
  const auto made = checked(reals({1024}), {fir_of("slow", {1, 2, 1}, 4), stage("psd", "power_spectrum", {})});
  EXPECT_THAT(next_of(made, 2048), testing::ElementsAre(2047, 2047));
}

stage_declaration resample_of(std::string name, std::int64_t up, std::int64_t down) {
  return stage(std::move(name), "resample", {}, {{"up", up}, {"down", down}});
}

TEST(TimeExtentsOfStages, AreRatiosBehindResampling) {
  const auto made = checked(reals({4096}, true), {fir_of("slow", {1}, 4), resample_of("faster", 6, 10),
                                                  resample_of("fast", 20, 3), reframe("rows", {}, 32)});
  EXPECT_THAT(time_extents_of_stages(made), testing::ElementsAre(rows(4), time_extent{20, 3}, rows(1), rows(32)));
}

TEST(TimingOfStages, FollowsARationalRate) {
  const auto made = checked(reals({4096}, true), {fir_of("slow", {1}, 4), resample_of("faster", 3, 2)});
  // The filter of 61 taps at three times the rate is 10 steps late, 40 of the input.
  EXPECT_THAT(next_of(made, 0), testing::ElementsAre(0, -40));
  EXPECT_THAT(next_of(made, 1), testing::ElementsAre(4, -40 + 16 / 3)) << "two of 8 / 3 steps have come";
  EXPECT_THAT(next_of(made, 12), testing::ElementsAre(12, -40 + 40 / 3)) << "five of them";
  EXPECT_THAT(next_of(made, 4'000'000), testing::ElementsAre(4'000'000, 4'000'000 - 40));
}

stage_declaration along(stage_declaration each, std::int64_t axis) {
  each.settings.set("axis", axis);
  return each;
}

TEST(Doubts, AreRaisedByASpectrumAcrossChannels) {
  const auto doubts =
      doubts_about(checked(reals({1280, 3}, true), {reframe("blocks", {}, 256), stage("psd", "power_spectrum", {})}));
  ASSERT_EQ(doubts.size(), 1U);
  EXPECT_THAT(doubts.front(),
              testing::HasSubstr("test.toml:7: pipeline 'test', stage 'psd': 'power_spectrum' works along the "
                                 "last dimension of f32[max 5, 256, 3], which has 3 elements"));
}

TEST(Doubts, AreRaisedByASpectrumBehindWhatWorkedAlongAnotherAxis) {
  const auto doubts =
      doubts_about(checked(reals({1280, 3}, true), {reframe("blocks", {}, 256), along(stage("smooth", "window", {}), 1),
                                                    stage("bins", "fft", {})}));
  ASSERT_EQ(doubts.size(), 1U);
  EXPECT_THAT(doubts.front(), testing::HasSubstr("'fft' works along the last dimension of f32[max 5, 256, 3]"));
  EXPECT_THAT(
      doubts_about(checked(reals({1280, 3}), {along(stage("smooth", "window", {}), -1), stage("bins", "fft", {})})),
      testing::IsEmpty())
      << "what worked along it meant it";
}

TEST(Doubts, AreRaisedBehindAReductionByWhatItLeavesLast) {
  EXPECT_EQ(
      doubts_about(checked(reals({256, 3, 128}), {along(stage("means", "reduce", {}), -1), stage("bins", "fft", {})}))
          .size(),
      1U);
  EXPECT_THAT(
      doubts_about(checked(reals({4096, 128}), {along(stage("figures", "moments", {}), 0), stage("best", "top", {})})),
      testing::IsEmpty())
      << "moments lie last, along whichever axis they are";
}

TEST(Doubts, AreRaisedByWhateverWorksOnRowsOfChannels) {
  for (const stage_declaration& each : {stage("y", "window", {}), stage("y", "moments", {}),
                                        stage("y", "histogram", {}), stage("y", "detect", {}, {{"high", 1.0}}),
                                        stage("y", "correlate", {}, {{"template", std::vector<double>{1}}})}) {
    EXPECT_EQ(doubts_about(checked(reals({1280, 3}), {each})).size(), 1U) << each.op;
  }
}

TEST(Doubts, AreRaisedByAFilterOrAScoreThatTakesChannelsForTime) {
  const auto fir = stage("y", "fir", {}, {{"taps", std::vector<double>{1}}});
  for (const stage_declaration& each : {zscore(), fir}) {
    const auto doubts = doubts_about(checked(reals({1280, 3}), {planar(), each}));
    ASSERT_EQ(doubts.size(), 1U) << each.op;
    EXPECT_THAT(doubts.front(),
                testing::HasSubstr("takes the first dimension of f32[3, 1280] for time, 3 steps a frame"));
    EXPECT_EQ(doubts_about(checked(reals({3, 1280}), {each})).size(), 1U) << each.op;
  }
}

TEST(Doubts, AreRaisedByASpectrumOverAHandful) {
  EXPECT_EQ(doubts_about(checked(reals({2, 8}), {stage("psd", "power_spectrum", {})})).size(), 1U);
  EXPECT_THAT(doubts_about(checked(reals({2, 9}), {stage("psd", "power_spectrum", {})})), testing::IsEmpty());
  EXPECT_THAT(doubts_about(checked(reals({8}), {stage("psd", "power_spectrum", {})})), testing::IsEmpty());
}

TEST(Doubts, AreNotRaisedWhereTheAxisIsNamed) {
  for (const std::int64_t axis : {1, 2, -1}) {
    EXPECT_THAT(doubts_about(checked(reals({1280, 3}, true), {reframe("blocks", {}, 256),
                                                              stage("psd", "power_spectrum", {}, {{"axis", axis}})})),
                testing::IsEmpty())
        << axis;
  }
}

TEST(Axis, IsThatAlongWhichAStageWorks) {
  const auto made =
      checked(reals({1280, 3}), {zscore(), stage("psd", "power_spectrum", {}, {{"axis", std::int64_t{0}}}),
                                 stage("level", "affine", {}), stage("stats", "moments", {})});
  EXPECT_EQ(made.stages[0].axis, std::size_t{0});
  EXPECT_EQ(made.stages[1].axis, std::size_t{0});
  EXPECT_EQ(made.stages[2].axis, std::nullopt);
  EXPECT_EQ(made.stages[3].axis, std::size_t{1});
  EXPECT_THAT(time_extents_of_stages(made), testing::ElementsAre(rows(1), rows(0), rows(0), rows(0)));
}

TEST(TimeAxis, IsThatOfTheInputAlongWhichAStageSaysThatItSteps) {
  EXPECT_EQ(checked(reals({8, 1024}), {zscore()}).time_axis, 0U);
  EXPECT_EQ(checked(reals({8, 1024}), {along(zscore(), -1)}).time_axis, 1U);
  EXPECT_EQ(checked(reals({8, 1024}), {stage("level", "affine", {}), along(zscore(), -1)}).time_axis, 1U);
  EXPECT_EQ(checked(reals({8, 1024}), {stage("turned", "transpose", {}), along(zscore(), 0)}).time_axis, 1U);
  EXPECT_EQ(checked(reals({2, 8, 1024}),
                    {stage("turned", "transpose", {}, {{"axes", std::vector<double>{-1, 0, 1}}}), along(zscore(), 0)})
                .time_axis,
            2U);
  EXPECT_EQ(checked(reals({1024, 8}), {planar(), along(zscore(), 1)}).time_axis, 0U);
  EXPECT_EQ(checked(reals({4, 8, 1024}), {stage("sum", "reduce", {}, {{"axis", std::int64_t{0}}}), along(zscore(), -1)})
                .time_axis,
            2U);
  EXPECT_EQ(checked(reals({8, 1024}), {stage("psd", "power_spectrum", {}), along(zscore(), 1)}).time_axis, 0U)
      << "bins are no time";
  EXPECT_EQ(checked(reals({8, 1024}), {stage("psd", "power_spectrum", {})}).time_axis, 0U);
}

TEST(TimeAxis, IsThatOfTheFirstInputWhateverIsDoneWithTheOthers) {
  stage_declaration first = along(zscore(), 1);
  first.name = "first";
  first.from = {"a"};
  for (const std::vector<std::int64_t>& other : {std::vector<std::int64_t>{1024}, {8, 1024}}) {
    stage_declaration second = other.size() == 1 ? zscore() : along(zscore(), 1);
    second.name = "second";
    second.from = {"b"};
    pipeline_declaration declared = pipeline({first, second}, {"first", "second"});
    declared.input = {element_type::f32, {8, 1024}, false};
    declared.inputs = {{"a", declared.input}, {"b", {element_type::f32, other, false}}};
    const pipeline_declaration made = check_pipeline(std::move(declared));
    EXPECT_EQ(made.time_axis, 1U);
    EXPECT_THAT(doubts_about(made), testing::IsEmpty());
  }
}

TEST(TimingOfStages, FollowsTimeAlongAnotherAxis) {
  const auto made = checked(
      reals({8, 1024}), {along(fir_of("slow", {1, 2, 1}, 4), 1), along(reframe("rows", {}, 64), 1), along(zscore(), 1),
                         stage("turned", "transpose", {}, {{"axes", std::vector<double>{1, 0, 2}}})});
  EXPECT_EQ(made.stages[0].axis, std::size_t{1});
  EXPECT_EQ(made.stages[1].output, reals({8, 4, 64}));
  EXPECT_THAT(time_extents_of_stages(made), testing::ElementsAre(rows(0), rows(0), rows(0), rows(256)))
      << "the first dimension is no time before it is turned";
  EXPECT_THAT(next_of(made, 2048), testing::ElementsAre(2047, 2047, 2047, 2047));
  EXPECT_THAT(doubts_about(made), testing::IsEmpty());
}

TEST(Doubts, AreRaisedWhereTimeIsKnownToLieElsewhere) {
  const auto doubts = doubts_about(checked(reals({8, 1024}), {along(fir_of("slow", {1}, 4), 1), zscore()}));
  ASSERT_EQ(doubts.size(), 1U);
  EXPECT_THAT(doubts.front(), testing::HasSubstr("'moving_zscore' takes the first dimension of f32[8, 256] for time, 8 "
                                                 "steps a frame: if these are channels, name the right one by 'axis'"));
  EXPECT_THAT(doubts_about(checked(reals({8, 1024}), {zscore(), along(fir_of("slow", {1}, 4), 1)})).at(1),
              testing::HasSubstr("'fir' takes axis 1 of f32[8, 1024] for time, 1024 steps a frame"));
}

TEST(Doubts, AreNotRaisedWhereAFilterNamesItsAxis) {
  for (const std::int64_t axis : {0, 1}) {
    EXPECT_THAT(doubts_about(checked(reals({3, 1280}), {along(zscore(), axis)})), testing::IsEmpty()) << axis;
  }
  EXPECT_THAT(doubts_about(checked(reals({1280, 3}), {planar(), along(zscore(), -1)})), testing::IsEmpty());
  EXPECT_THAT(doubts_about(checked(reals({16, 64}), {along(fir_of("slow", {1}, 8), -1), stage("psd", "fft", {})})),
              testing::IsEmpty())
      << "few steps of time are no channels";
}

TEST(Doubts, AreNotRaisedByTheWaysThatWork) {
  EXPECT_THAT(doubts_about(checked(reals({1280, 3}, true), {zscore()})), testing::IsEmpty());
  EXPECT_THAT(doubts_about(checked(reals({1280, 3}), {zscore(), planar(), stage("psd", "power_spectrum", {}),
                                                      stage("events", "detect", {}, {{"high", 1.0}})})),
              testing::IsEmpty());
  // Steps of spectra are time, however few a frame has.
  EXPECT_THAT(
      doubts_about(checked(reals({1024}), {reframe("blocks", {}, 256), stage("psd", "power_spectrum", {}), zscore()})),
      testing::IsEmpty());
}

using places = std::vector<std::size_t>;

TEST(stage_graph, KeepsTheDeclaredOrderWhereItCanRun) {
  EXPECT_EQ((stage_graph{{{}, {0}, {0}, {1, 2}}}.running_order()), (places{0, 1, 2, 3}));
}

TEST(stage_graph, PutsReadersAfterWhatTheyRead) {
  EXPECT_EQ((stage_graph{{{2}, {}, {1}}}.running_order()), (places{1, 2, 0}));
}

TEST(stage_graph, OrdersRandomGraphsWithoutCycles) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::size_t stages = 1 + random() % 12;
    places rank(stages);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      rank[stage] = stage;
    }
    std::shuffle(rank.begin(), rank.end(), random);
    stage_graph graph{std::vector<places>(stages)};
    for (std::size_t pair = 0; pair < 2 * stages; ++pair) {
      const std::size_t reader = random() % stages;
      const std::size_t source = random() % stages;
      if (rank[source] < rank[reader]) {
        graph.reads[reader].push_back(source);
      }
    }
    const places order = graph.running_order();
    ASSERT_EQ(order.size(), stages);
    EXPECT_TRUE(graph.cycle().empty());
    for (std::size_t reader = 0; reader < stages; ++reader) {
      for (const std::size_t source : graph.reads[reader]) {
        EXPECT_LT(std::find(order.begin(), order.end(), source), std::find(order.begin(), order.end(), reader));
      }
    }
  }
}

TEST(stage_graph, FindsTheCycleAndNotWhatLeadsToIt) {
  EXPECT_EQ((stage_graph{{{1}, {2}, {3}, {1}}}.cycle()), (places{1, 2, 3}));
  EXPECT_EQ((stage_graph{{{}, {1}}}.cycle()), (places{1}));
}

}  // namespace
}  // namespace penstock
