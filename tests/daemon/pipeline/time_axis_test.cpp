#include "daemon/pipeline/time_axis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/pipeline/check.hpp"
#include "tests/daemon/pipeline/declarations.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

pipeline_declaration checked(const tensor_spec& input, std::vector<stage_declaration> stages) {
  pipeline_declaration made = pipeline(std::move(stages));
  made.input = input;
  return check_pipeline(made);
}

tensor_spec reals(std::vector<std::int64_t> shape, bool variable = false) {
  return {element_type::f32, std::move(shape), variable};
}

stage_declaration reframe(std::int64_t length) {
  return stage("blocks", "reframe", {}, {{"length", length}});
}

stage_declaration zscore() {
  return stage("z", "moving_zscore", {}, {{"window", std::int64_t{16}}});
}

stage_declaration planar() {
  return stage("rows", "convert", {}, {{"planar", true}});
}

TEST(StepsOfStages, AreThoseOfDecimationsAndBlocksTogether) {
  const auto made =
      checked(reals({4096}, true),
              {stage("slow", "fir", {}, {{"taps", std::vector<double>{1}}, {"decimation", std::int64_t{8}}}),
               reframe(32), stage("psd", "power_spectrum", {}), stage("events", "detect", {}, {{"high", 1.0}})});
  EXPECT_THAT(steps_of_stages(made), ElementsAre(8, 256, 256, 256));
}

TEST(StepsOfStages, AreKnownOfFramesOfOneLengthToo) {
  EXPECT_THAT(steps_of_stages(checked(reals({1024}), {reframe(256), stage("psd", "power_spectrum", {})})),
              ElementsAre(256, 256));
}

TEST(StepsOfStages, AreNoneWhereTheFirstDimensionIsNoTime) {
  EXPECT_THAT(steps_of_stages(checked(reals({1024}), {stage("psd", "power_spectrum", {})})), ElementsAre(0));
  EXPECT_THAT(steps_of_stages(checked(reals({1024, 2}), {planar(), stage("psd", "power_spectrum", {})})),
              ElementsAre(0, 0));
}

TEST(Doubts, AreRaisedByASpectrumAcrossChannels) {
  const auto doubts = doubts_about(checked(reals({1280, 3}, true), {reframe(256), stage("psd", "power_spectrum", {})}));
  ASSERT_EQ(doubts.size(), 1U);
  EXPECT_THAT(doubts.front(), HasSubstr("test.toml:7: pipeline 'test', stage 'psd': 'power_spectrum' works along the "
                                        "last dimension of f32[max 5, 256, 3], which has 3 elements"));
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
    EXPECT_THAT(doubts.front(), HasSubstr("takes the first dimension of f32[3, 1280] for time, 3 steps a frame"));
    EXPECT_EQ(doubts_about(checked(reals({3, 1280}), {each})).size(), 1U) << each.op;
  }
}

TEST(Doubts, AreNotRaisedByTheWaysThatWork) {
  EXPECT_THAT(doubts_about(checked(reals({1280, 3}, true), {zscore()})), IsEmpty());
  EXPECT_THAT(doubts_about(checked(reals({1280, 3}), {zscore(), planar(), stage("psd", "power_spectrum", {}),
                                                      stage("events", "detect", {}, {{"high", 1.0}})})),
              IsEmpty());
  // Steps of spectra are time, however few a frame has.
  EXPECT_THAT(doubts_about(checked(reals({1024}), {reframe(256), stage("psd", "power_spectrum", {}), zscore()})),
              IsEmpty());
}

}  // namespace
}  // namespace penstock
