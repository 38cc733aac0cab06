#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/exec/scheduler.hpp"
#include "daemon/net/admission.hpp"
#include "tests/support/scheduler_rig.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using testing::manual_device;
using testing::plan_wish;
using testing::rig_shape;
using testing::scheduler_rig;
using wire::status;

// What blocks tells a fault with its completion; the device goes on.
TEST(SchedulerOfABlockingPipeline, FailsABatchAloneAndServesTheNext) {
  scheduler_rig rig({.slots = 4, .streams = 2}, {{.blocks = true}, {}});
  rig.submit(1);
  rig.submit(2, {.pipeline = 1});
  rig.settle();
  ASSERT_TRUE(rig.device.finish(rig.device.streams() - 1, {"CUBLAS_STATUS_EXECUTION_FAILED"}));
  rig.settle();
  EXPECT_EQ(rig.reply(1).code, status::failed);
  EXPECT_EQ(rig.reply(1).why.device_error, "CUBLAS_STATUS_EXECUTION_FAILED");
  EXPECT_EQ(rig.reply(1).why.stage, "next");
  EXPECT_FALSE(rig.scheduling.lost());
  rig.submit(3);
  rig.settle();
  rig.device.finish_all();
  rig.settle();
  EXPECT_EQ(rig.reply(2).code, status::ok);
  EXPECT_EQ(rig.reply(3).code, status::ok);
  rig.end_in_peace();
}

TEST(SchedulerOfABlockingPipeline, ExplainsFaultsThatArePenstocksOwn) {
  scheduler_rig rig({.slots = 4, .streams = 2}, {{.blocks = true}, {}});
  rig.submit(1);
  rig.settle();
  ASSERT_TRUE(rig.device.finish(rig.device.streams() - 1, {"PLUGIN_FAILED"}));
  rig.settle();
  EXPECT_EQ(rig.reply(1).why.device_error, "PLUGIN_FAILED");
  EXPECT_EQ(rig.reply(1).why.reason,
            "the device failed the batch: the plug-in's run returned an error that has no name");
  rig.end_in_peace();
}

TEST(SchedulerOfABlockingPipeline, IsNotHeldUpByOneOfItsPriorityThatBlocks) {
  scheduler_rig rig({.slots = 8, .streams = 1}, {{.blocks = true}, {}});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    rig.submit(id, {.frames = 8});
  }
  rig.settle();
  rig.submit(5, {.frames = 8, .pipeline = 1});
  rig.settle();
  ASSERT_TRUE(rig.device.finish(0));
  rig.settle();
  EXPECT_EQ(rig.reply(5).code, status::ok);
  EXPECT_EQ(rig.replied.count, 1U);
  while (rig.device.pending() != 0) {
    rig.device.finish_all();
    rig.settle();
  }
  rig.end_in_peace();
}

class SchedulerEnd : public ::testing::TestWithParam<completion_mode> {
 protected:
  // One request with the device (1), one in an open batch (2) and one in the queue (3).
  explicit SchedulerEnd() : rig_(rig_shape{2, 1, GetParam(), 1024}) {
    rig_.submit(1, {.frames = 8, .timeout = timeout_});
    rig_.settle();
    rig_.submit(2, {.frames = 4, .timeout = timeout_});
    rig_.settle();
    rig_.submit(3, {.frames = 8, .timeout = timeout_});
    rig_.scheduling.turn(rig_.now);
  }
  void finish_all() {
    for (int batch = 0; batch < 4; ++batch) {
      rig_.device.finish_all();
      rig_.settle();
    }
  }

  const milliseconds timeout_{10};
  scheduler_rig rig_;
};

// Request 3 does not fit behind 2, which is closed for it: one executes, one is batched behind it, one is queued.
TEST_P(SchedulerEnd, ExpiresAtEveryStepOnTimeWhileTheDeviceIsBusy) {
  rig_.now += timeout_ - std::chrono::nanoseconds{1};
  rig_.expire();
  EXPECT_EQ(rig_.replied.count, 0U);
  rig_.now += std::chrono::nanoseconds{1};
  rig_.expire();
  EXPECT_EQ(rig_.reply(1).why.step, "executing");
  EXPECT_EQ(rig_.reply(3).why.step, "queued");
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    EXPECT_EQ(rig_.reply(id).code, status::expired);
  }
  rig_.check();
  EXPECT_EQ(rig_.slots.free(), 0U) << "the device still works in them";
  finish_all();
  EXPECT_EQ(rig_.replied.count, 3U);
  EXPECT_EQ(rig_.slots.free(), 2U);
  EXPECT_EQ(rig_.client().references, 0U);
}

TEST_P(SchedulerEnd, ExpiresInAnOpenBatchWithoutDisturbingTheOthers) {
  scheduler_rig rig(rig_shape{4, 1, GetParam(), 1024});
  rig.submit(1, {.frames = 8});
  rig.settle();
  rig.submit(2, {.frames = 2, .timeout = timeout_});
  rig.submit(3, {.frames = 3});
  rig.now += timeout_;
  rig.expire();
  EXPECT_EQ(rig.reply(2).code, status::expired);
  EXPECT_EQ(rig.reply(2).why.step, "batched");
  rig.settle();
  rig.finish(0);
  rig.finish(0);
  EXPECT_EQ(rig.reply(3).code, status::ok);
  EXPECT_EQ(rig.replies(2), 1U);
  rig.check();
}

TEST_P(SchedulerEnd, CancelsAtEveryStepWithOneReply) {
  for (const std::uint64_t id : {3U, 2U, 1U}) {
    request* const found = rig_.client().in_flight.find(id);
    ASSERT_NE(found, nullptr);
    rig_.scheduling.end(*found, status::cancelled, "cancelled by the client");
    EXPECT_EQ(rig_.reply(id).code, status::cancelled);
    EXPECT_EQ(rig_.client().in_flight.find(id), nullptr);
    rig_.check();
  }
  EXPECT_EQ(rig_.payloads.size(), 0U);
  EXPECT_EQ(rig_.client().requests, 0U);
  EXPECT_EQ(rig_.client().bytes, 0U);
  finish_all();
  EXPECT_EQ(rig_.replied.count, 3U);
  EXPECT_EQ(rig_.slots.free(), 2U);
  EXPECT_EQ(rig_.client().references, 0U);
}

TEST_P(SchedulerEnd, ReturnsCreditsWithTheReplyAndNotWithTheCompletion) {
  rig_.scheduling.end(*rig_.client().in_flight.find(1), status::cancelled, "");
  EXPECT_EQ(rig_.client().requests, 2U);
  EXPECT_EQ(rig_.client().references, 3U);
  finish_all();
  EXPECT_EQ(rig_.client().requests, 0U);
  EXPECT_EQ(rig_.client().references, 0U);
}

TEST_P(SchedulerEnd, FailsABatchWhoseCompletionTellsAFault) {
  rig_.device.finish(0, {"cudaErrorIllegalAddress"});
  rig_.scheduling.turn(rig_.now);
  EXPECT_EQ(rig_.reply(1).code, status::device_failed);
  EXPECT_EQ(rig_.reply(1).why.device_error, "cudaErrorIllegalAddress");
  ASSERT_TRUE(rig_.scheduling.lost());
  EXPECT_EQ(rig_.scheduling.lost()->error, "cudaErrorIllegalAddress");
  rig_.check();
}

TEST_P(SchedulerEnd, SuspectsNobodyWithoutUsersCode) {
  rig_.device.finish(0, {"cudaErrorIllegalAddress"});
  rig_.scheduling.turn(rig_.now);
  ASSERT_TRUE(rig_.scheduling.lost());
  EXPECT_TRUE(rig_.scheduling.lost()->suspects.empty());
}

TEST_P(SchedulerEnd, LaunchesNothingOnceTheDeviceIsLost) {
  const std::size_t marks = rig_.device.marks();
  rig_.device.finish(0, {"cudaErrorIllegalAddress"});
  rig_.settle();
  rig_.submit(9);
  rig_.settle();
  EXPECT_EQ(rig_.device.marks(), marks);
}

// What came before the fault may have run, and the device may still have to do it: it has the slot for so long.
TEST_P(SchedulerEnd, FailsABatchThatTheDeviceRefusesAndGoesOn) {
  for (const auto call :
       {manual_device::call::copy_in, manual_device::call::launch, manual_device::call::copy_out,
        GetParam() == completion_mode::poll ? manual_device::call::record : manual_device::call::on_complete}) {
    scheduler_rig rig(rig_shape{4, 2, GetParam(), 1024});
    rig.device.refuse(call, "cudaErrorLaunchFailure");
    rig.submit(1);
    rig.settle();
    EXPECT_FALSE(rig.scheduling.lost());
    EXPECT_EQ(rig.reply(1).code, status::failed);
    EXPECT_EQ(rig.reply(1).why.device_error, "cudaErrorLaunchFailure");
    EXPECT_EQ(rig.reply(1).why.stage, call == manual_device::call::launch ? "next" : "");
    EXPECT_EQ(rig.tracker.of_pipeline(0).refused, 1U);
    EXPECT_EQ(rig.slots.free(), 3U) << "the slot is in the device's hands";
    EXPECT_EQ(rig.device.pending(), 1U) << "its end comes behind what was enqueued";
    rig.submit(2);
    rig.end_in_peace();
    EXPECT_EQ(rig.reply(2).code, status::ok);
  }
}

TEST_P(SchedulerEnd, TakesThreeRefusalsInTenSecondsForTheLossOfTheDevice) {
  scheduler_rig rig(rig_shape{4, 2, GetParam(), 1024});
  const auto refused = [&](std::uint64_t id) {
    rig.device.refuse(manual_device::call::launch, "cudaErrorMemoryAllocation");
    rig.submit(id);
    rig.settle();
    rig.device.finish_all();
    rig.settle();
  };
  for (std::uint64_t id = 1; id <= 6; ++id) {
    refused(id);
    rig.now += refusals_count_for / 2;
  }
  EXPECT_FALSE(rig.scheduling.lost());
  rig.now += refusals_count_for;
  refused(7);
  refused(8);
  EXPECT_FALSE(rig.scheduling.lost());
  refused(9);
  ASSERT_TRUE(rig.scheduling.lost());
  EXPECT_EQ(rig.scheduling.lost()->error, "cudaErrorMemoryAllocation");
  EXPECT_EQ(rig.scheduling.lost()->stage, "next");
  rig.check();
}

// The end of the batch is refused as well: what was enqueued still has to be behind it.
TEST_P(SchedulerEnd, FencesARefusedBatchUntilTheDeviceTakesTheFence) {
  scheduler_rig rig(rig_shape{4, 1, GetParam(), 1024});
  rig.device.refuse(manual_device::call::copy_out, "cudaErrorMemoryAllocation");
  rig.device.refuse(
      GetParam() == completion_mode::poll ? manual_device::call::record : manual_device::call::on_complete,
      "cudaErrorMemoryAllocation");
  rig.submit(1);
  rig.settle();
  EXPECT_FALSE(rig.scheduling.lost());
  EXPECT_EQ(rig.reply(1).code, status::failed);
  EXPECT_EQ(rig.slots.free(), 3U);
  rig.end_in_peace();
}

TEST_P(SchedulerEnd, SeesThatAnIdleDeviceHasFailed) {
  scheduler_rig rig(rig_shape{4, 1, GetParam(), 1024});
  rig.scheduling.check_device(rig.now, std::chrono::seconds{1});
  EXPECT_FALSE(rig.scheduling.lost());
  rig.device.lose("cudaErrorECCUncorrectable");
  rig.scheduling.check_device(rig.now, std::chrono::seconds{1});
  ASSERT_TRUE(rig.scheduling.lost());
  EXPECT_EQ(rig.scheduling.lost()->error, "cudaErrorECCUncorrectable");
}

TEST_P(SchedulerEnd, EndsAllOnceWhateverCompletesLater) {
  rig_.scheduling.end_all(status::device_failed, {"the device is lost", "executing", "", "cudaErrorUnknown"});
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    EXPECT_EQ(rig_.reply(id).code, status::device_failed);
  }
  EXPECT_EQ(rig_.counters.requests.in_flight, 0U);
  EXPECT_EQ(rig_.client().references, 0U);
  EXPECT_EQ(rig_.payloads.size(), 0U);
  finish_all();
  EXPECT_EQ(rig_.replied.count, 3U);
  rig_.check();
}

TEST_P(SchedulerEnd, LaunchesNothingAfterEndAllAndGetsEverySlotBack) {
  scheduler_rig rig(rig_shape{4, 1, GetParam(), 1024});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    rig.submit(id, {.frames = 8});
    rig.settle();
  }
  rig.submit(4);
  const std::size_t marks = rig.device.marks();
  rig.scheduling.end_all(status::shutdown, {"stopped", "executing", "", ""});
  rig.device.finish_all();
  rig.settle();
  EXPECT_EQ(rig.device.marks(), marks);
  EXPECT_EQ(rig.slots.free(), 4U);
  EXPECT_EQ(rig.replied.count, 4U);
  EXPECT_TRUE(rig.scheduling.idle());
}

TEST_P(SchedulerEnd, DrainAnswersTheQueueAndFinishesTheRest) {
  rig_.scheduling.drain();
  EXPECT_EQ(rig_.reply(3).code, status::shutdown);
  EXPECT_EQ(rig_.reply(3).why.step, "queued");
  EXPECT_FALSE(rig_.scheduling.idle());
  finish_all();
  EXPECT_EQ(rig_.reply(1).code, status::ok);
  EXPECT_EQ(rig_.reply(2).code, status::ok);
  EXPECT_TRUE(rig_.scheduling.idle());
  rig_.check();
}

TEST_P(SchedulerEnd, DrainClosesABatchThatWouldWait) {
  scheduler_rig rig(rig_shape{4, 1, GetParam(), 1024});
  rig.submit(1);
  rig.settle();
  rig.submit(2);
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 1U);
  rig.scheduling.drain();
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 2U);
  EXPECT_EQ(rig.closed(close_reason::drain), 1U);
  rig.device.finish_all();
  rig.settle();
  EXPECT_TRUE(rig.scheduling.idle());
  EXPECT_EQ(rig.counters.requests.results, 2U);
}

TEST_P(SchedulerEnd, CallsTheDeviceHungAfterTheLimitAndNotBefore) {
  constexpr std::chrono::seconds patience{1};
  const time_point launched = rig_.now;
  rig_.scheduling.check_device(launched + patience, patience);
  EXPECT_FALSE(rig_.scheduling.lost());
  rig_.scheduling.check_device(launched + patience + std::chrono::nanoseconds{1}, patience);
  ASSERT_TRUE(rig_.scheduling.lost());
  EXPECT_EQ(rig_.scheduling.lost()->error, "a batch hangs");
  EXPECT_EQ(rig_.scheduling.lost()->pipeline, "pipeline0");
  EXPECT_EQ(rig_.scheduling.lost()->stage, "");
}

TEST_P(SchedulerEnd, CallsABatchHungLaterWhileOthersAreDone) {
  constexpr std::chrono::seconds patience{1};
  scheduler_rig rig(rig_shape{4, 2, GetParam()});
  const time_point launched = rig.now;
  rig.submit(1);
  rig.settle();
  for (std::uint64_t id = 2; rig.now < launched + 10 * patience; ++id) {
    rig.submit(id);
    rig.settle();
    rig.now += std::chrono::milliseconds{500};
    rig.finish(1);
    rig.scheduling.check_device(rig.now, patience);
    EXPECT_FALSE(rig.scheduling.lost()) << "others are done all the time";
  }
  rig.scheduling.check_device(rig.now + std::chrono::nanoseconds{1}, patience);
  EXPECT_TRUE(rig.scheduling.lost());
  rig.device.finish_all();
}

TEST_P(SchedulerEnd, DoesNotCallAnIdleDeviceHung) {
  finish_all();
  rig_.scheduling.check_device(never, std::chrono::seconds{1});
  EXPECT_FALSE(rig_.scheduling.lost());
}

TEST_P(SchedulerEnd, SaysForHowLongTheDeviceHasFinishedNothing) {
  EXPECT_EQ(rig_.scheduling.standing_still(rig_.now + std::chrono::seconds{3}), std::chrono::seconds{3});
}

TEST_P(SchedulerEnd, StandsStillNoLongerThanSinceABatchWasDone) {
  scheduler_rig rig(rig_shape{4, 2, GetParam()});
  for (const std::uint64_t id : {1U, 2U}) {
    rig.submit(id);
    rig.settle();
  }
  rig.now += std::chrono::seconds{5};
  rig.finish(1);
  EXPECT_EQ(rig.scheduling.standing_still(rig.now + std::chrono::seconds{1}), std::chrono::seconds{1});
  rig.device.finish_all();
}

TEST_P(SchedulerEnd, NeverStandsStillWithNothingToDo) {
  finish_all();
  EXPECT_EQ(rig_.scheduling.standing_still(rig_.now + std::chrono::hours{1}), std::chrono::nanoseconds{0});
}

INSTANTIATE_TEST_SUITE_P(Modes, SchedulerEnd, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

constexpr std::size_t frame_bytes = 16;

// A pipeline that keeps state, one stream and two slots: the third batch waits in the queue. The rig compares every
// total with the sum of all that was submitted to the session: one that goes through twice, or not, shows in those
// behind it.
class AbandonedRequest : public ::testing::TestWithParam<completion_mode> {
 protected:
  AbandonedRequest() : rig_(rig_shape{2, 1, GetParam(), 4}, {plan_wish{.max_frames = 1, .keeps_state = true}}) {
    for (const std::uint64_t id : {1U, 2U, 3U, 4U}) {
      submit(id, milliseconds{id == 3 ? 10 : 0});
    }
  }
  void submit(std::uint64_t id, milliseconds timeout = {}) {
    rig_.submit(id, {.timeout = timeout, .session = &rig_.session("a")});
    rig_.settle();
  }
  void cancel(std::uint64_t id) {
    rig_.scheduling.end(*rig_.client().in_flight.find(id), status::cancelled, "cancelled by the client");
  }
  void expect_state_saw_all() {
    rig_.end_in_peace();
    EXPECT_EQ(rig_.tracker.of_pipeline(0).batched_frames, rig_.counters.requests.accepted) << "each frame once";
    EXPECT_EQ(rig_.session("a").references, 0U);
  }

  scheduler_rig rig_;
};

TEST_P(AbandonedRequest, IsAnsweredAtOnceAndStillGoesThroughItsSessionsState) {
  cancel(3);
  EXPECT_EQ(rig_.reply(3).code, status::cancelled);
  EXPECT_EQ(rig_.reply(3).why.step, "queued");
  EXPECT_EQ(rig_.payloads.size(), 2U) << "its payload is still to come";
  rig_.check();
  expect_state_saw_all();
  EXPECT_EQ(rig_.reply(4).code, status::ok);
  EXPECT_EQ(rig_.replies(3), 1U);
}

TEST_P(AbandonedRequest, ByItsTimeoutGoesThroughToo) {
  rig_.now += milliseconds{10};
  rig_.expire();
  EXPECT_EQ(rig_.reply(3).code, status::expired);
  expect_state_saw_all();
  EXPECT_EQ(rig_.counters.requests.results, 3U);
}

TEST_P(AbandonedRequest, HoldsNoCreditsButCountsUntilItsBatchIsDone) {
  const client_record& client = rig_.client();
  ASSERT_EQ(client.requests, 4U);
  cancel(3);
  cancel(4);
  EXPECT_EQ(client.requests, 2U);
  EXPECT_EQ(client.bytes, 2 * frame_bytes);
  EXPECT_EQ(client.abandoned_requests, 2U);
  EXPECT_EQ(client.abandoned_bytes, 2 * frame_bytes);
  EXPECT_EQ(client.references, 4U);
  expect_state_saw_all();
}

TEST_P(AbandonedRequest, IsNotFoundByItsIdAnyMore) {
  cancel(3);
  EXPECT_EQ(rig_.client().in_flight.find(3), nullptr);
  expect_state_saw_all();
}

// Without a bound, a client that submits and cancels fills the daemon's memory.
TEST_P(AbandonedRequest, EndsTheCreditsOfWhoAbandonsAsManyAsItMayHave) {
  client_record& client = rig_.client();
  client.granted_requests = 4;
  client.granted_bytes = 1000;
  std::uint64_t id = 4;
  cancel(3);
  cancel(4);
  while (check_abandoned(client).admitted()) {
    ASSERT_LT(id, 100U) << "there is no bound";
    submit(++id);
    cancel(id);
  }
  EXPECT_EQ(client.abandoned_requests, 4U);
  EXPECT_EQ(client.requests, 2U) << "it has credits left, and yet";
  expect_state_saw_all();
  EXPECT_TRUE(check_abandoned(client).admitted());
}

TEST_P(AbandonedRequest, WhereAPipelineKeepsNothingIsForgottenAtOnce) {
  scheduler_rig rig(rig_shape{2, 1, GetParam()}, {plan_wish{.max_frames = 1}});
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    rig.submit(id, {.session = &rig.session("a")});
    rig.settle();
  }
  rig.scheduling.end(*rig.client().in_flight.find(3), status::cancelled, "");
  EXPECT_EQ(rig.payloads.size(), 0U);
  EXPECT_EQ(rig.client().references, 2U);
  EXPECT_EQ(rig.client().abandoned_requests, 0U);
  rig.end_in_peace();
  EXPECT_EQ(rig.tracker.of_pipeline(0).batched_frames, 2U);
}

TEST_P(AbandonedRequest, IsGoneWithADrain) {
  cancel(3);
  rig_.scheduling.drain();
  EXPECT_EQ(rig_.reply(3).code, status::cancelled);
  EXPECT_EQ(rig_.reply(4).code, status::shutdown);
  EXPECT_EQ(rig_.client().abandoned_requests, 0U);
  rig_.end_in_peace();
  EXPECT_EQ(rig_.replied.count, 4U);
}

TEST_P(AbandonedRequest, IsGoneWithEndAll) {
  cancel(3);
  rig_.scheduling.end_all(status::device_failed, {"lost", "executing", "", ""});
  EXPECT_EQ(rig_.replied.count, 4U);
  EXPECT_EQ(rig_.client().abandoned_requests, 0U);
  rig_.end_in_peace();
}

// Its place in the table, and so its state, is not another's before the last of it is done.
TEST_P(AbandonedRequest, KeepsItsClosedSessionsPlace) {
  session_record& session = rig_.session("a");
  const std::uint32_t place = session.place;
  cancel(3);
  cancel(4);
  session_table::close(session);
  EXPECT_NE(rig_.session("b").place, place);
  rig_.end_in_peace();
  EXPECT_EQ(rig_.session("c").place, place);
}

// What is before them in the session has its results; what is behind has no state to go on from.
TEST_P(AbandonedRequest, BehindARefusedBatchEndsWithItsLostSession) {
  scheduler_rig rig(rig_shape{4, 2, GetParam(), 1024}, {plan_wish{.max_frames = 1, .keeps_state = true}});
  session_record& session = rig.session("a");
  session_record& other = rig.session("b");
  const std::uint32_t number = session.number;
  rig.submit(1, {.session = &session});
  rig.settle();
  rig.device.refuse(testing::manual_device::call::copy_out, "cudaErrorMemoryAllocation");
  for (const std::uint64_t id : {2U, 3U, 4U, 5U, 6U}) {
    rig.submit(id, {.session = &session});
  }
  rig.submit(7, {.session = &other});
  rig.settle();
  EXPECT_EQ(rig.reply(2).code, status::failed);
  EXPECT_EQ(rig.reply(2).why.device_error, "cudaErrorMemoryAllocation");
  EXPECT_EQ(rig.sessions.find(number, rig.client()), nullptr) << "what comes now is told that it is lost";
  rig.end_in_peace();
  EXPECT_EQ(rig.reply(1).code, status::ok);
  for (const std::uint64_t id : {3U, 4U, 5U, 6U}) {
    EXPECT_EQ(rig.reply(id).code, status::session_lost) << id;
  }
  EXPECT_EQ(rig.reply(7).code, status::ok) << "another session";
  EXPECT_EQ(session.references, 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, AbandonedRequest, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock
