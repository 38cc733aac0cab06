#include <gtest/gtest.h>

#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using testing::dispatch_rig;
using testing::plan_wish;

// One stream, which two pipelines share.
class ManyPipelines : public ::testing::TestWithParam<completion_mode> {};

TEST_P(ManyPipelines, LaunchesAPipelinesOnlyBatchBehindAnothersShortOnes) {
  dispatch_rig rig({.slots = 4, .streams = 1, .mode = GetParam()}, {plan_wish{}, plan_wish{}});
  rig.submit(1);
  rig.settle();
  const request& other = rig.submit(2, {.pipeline = 1});
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 2U);
  EXPECT_NE(other.home->launch, 0U);
  rig.finish(0);
  rig.submit(3, {.pipeline = 1});
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 1U) << "it has one there already";
  rig.finish(0);
  rig.finish(0);
  rig.end_in_peace();
}

TEST_P(ManyPipelines, GivesRoomToThosePipelinesThatHaveASlotOpen) {
  dispatch_rig rig({.slots = 2, .streams = 1, .mode = GetParam()}, {plan_wish{}, plan_wish{}});
  rig.submit(1, {.frames = 8});  // with the device
  rig.settle();
  rig.submit(2);  // the other slot is its own
  rig.settle();
  const request& without = rig.submit(3, {.pipeline = 1});
  const request& beside = rig.submit(4);
  rig.settle();
  EXPECT_EQ(without.step, request_step::queued);
  EXPECT_EQ(beside.step, request_step::batched);
  rig.finish(0);
  rig.finish(0);
  rig.finish(0);
  rig.end_in_peace();
}

INSTANTIATE_TEST_SUITE_P(Modes, ManyPipelines, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock
