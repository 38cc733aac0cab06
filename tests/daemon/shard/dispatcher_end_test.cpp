#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/shard/dispatcher.hpp"
#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using testing::dispatch_rig;
using testing::manual_device;
using testing::rig_shape;
using wire::status;

class DispatcherEnd : public ::testing::TestWithParam<completion_mode> {
 protected:
  // One request with the device (1), one in an open batch (2) and one in the queue (3).
  explicit DispatcherEnd() : rig_(rig_shape{2, 1, GetParam(), 1024}) {
    rig_.submit(1, {.frames = 8, .timeout = timeout_});
    rig_.settle();
    rig_.submit(2, {.frames = 4, .timeout = timeout_});
    rig_.settle();
    rig_.submit(3, {.frames = 8, .timeout = timeout_});
    rig_.path.turn(rig_.now);
  }
  void finish_all() {
    for (int batch = 0; batch < 4; ++batch) {
      rig_.device.finish_all();
      rig_.settle();
    }
  }

  const milliseconds timeout_{10};
  dispatch_rig rig_;
};

// Request 3 does not fit behind 2, which is closed for it: one executes, one is batched behind it, one is queued.
TEST_P(DispatcherEnd, ExpiresAtEveryStepOnTimeWhileTheDeviceIsBusy) {
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

TEST_P(DispatcherEnd, ExpiresInAnOpenBatchWithoutDisturbingTheOthers) {
  dispatch_rig rig(rig_shape{4, 1, GetParam(), 1024});
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

TEST_P(DispatcherEnd, CancelsAtEveryStepWithOneReply) {
  for (const std::uint64_t id : {3U, 2U, 1U}) {
    request* const found = rig_.client().in_flight.find(id);
    ASSERT_NE(found, nullptr);
    rig_.path.end(*found, status::cancelled, "cancelled by the client");
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

TEST_P(DispatcherEnd, ReturnsCreditsWithTheReplyAndNotWithTheCompletion) {
  rig_.path.end(*rig_.client().in_flight.find(1), status::cancelled, "");
  EXPECT_EQ(rig_.client().requests, 2U);
  EXPECT_EQ(rig_.client().references, 3U);
  finish_all();
  EXPECT_EQ(rig_.client().requests, 0U);
  EXPECT_EQ(rig_.client().references, 0U);
}

TEST_P(DispatcherEnd, FailsABatchWhoseCompletionTellsAFault) {
  rig_.device.finish(0, {"cudaErrorIllegalAddress"});
  rig_.path.turn(rig_.now);
  EXPECT_EQ(rig_.reply(1).code, status::device_failed);
  EXPECT_EQ(rig_.reply(1).why.device_error, "cudaErrorIllegalAddress");
  ASSERT_TRUE(rig_.path.lost());
  EXPECT_EQ(rig_.path.lost()->error, "cudaErrorIllegalAddress");
  rig_.check();
}

TEST_P(DispatcherEnd, LaunchesNothingOnceTheDeviceIsLost) {
  const std::size_t marks = rig_.device.marks();
  rig_.device.finish(0, {"cudaErrorIllegalAddress"});
  rig_.settle();
  rig_.submit(9);
  rig_.settle();
  EXPECT_EQ(rig_.device.marks(), marks);
}

// What came before the fault may have run, and the device may still have to do it: it has the slot for so long.
TEST_P(DispatcherEnd, FailsABatchThatTheDeviceRefusesAndGoesOn) {
  for (const auto call :
       {manual_device::call::copy_in, manual_device::call::launch, manual_device::call::copy_out,
        GetParam() == completion_mode::poll ? manual_device::call::record : manual_device::call::on_complete}) {
    dispatch_rig rig(rig_shape{4, 2, GetParam(), 1024});
    rig.device.refuse(call, "cudaErrorLaunchFailure");
    rig.submit(1);
    rig.settle();
    EXPECT_FALSE(rig.path.lost());
    EXPECT_EQ(rig.reply(1).code, status::failed);
    EXPECT_EQ(rig.reply(1).why.device_error, "cudaErrorLaunchFailure");
    EXPECT_EQ(rig.reply(1).why.stage, call == manual_device::call::launch ? "next" : "");
    EXPECT_EQ(rig.book.of_pipeline(0).refused, 1U);
    EXPECT_EQ(rig.slots.free(), 3U) << "the slot is in the device's hands";
    EXPECT_EQ(rig.device.pending(), 1U) << "its end comes behind what was enqueued";
    rig.submit(2);
    rig.end_in_peace();
    EXPECT_EQ(rig.reply(2).code, status::ok);
  }
}

TEST_P(DispatcherEnd, TakesThreeRefusalsInTenSecondsForTheLossOfTheDevice) {
  dispatch_rig rig(rig_shape{4, 2, GetParam(), 1024});
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
  EXPECT_FALSE(rig.path.lost());
  rig.now += refusals_count_for;
  refused(7);
  refused(8);
  EXPECT_FALSE(rig.path.lost());
  refused(9);
  ASSERT_TRUE(rig.path.lost());
  EXPECT_EQ(rig.path.lost()->error, "cudaErrorMemoryAllocation");
  EXPECT_EQ(rig.path.lost()->stage, "next");
  rig.check();
}

// The end of the batch is refused as well: what was enqueued still has to be behind it.
TEST_P(DispatcherEnd, FencesARefusedBatchUntilTheDeviceTakesTheFence) {
  dispatch_rig rig(rig_shape{4, 1, GetParam(), 1024});
  rig.device.refuse(manual_device::call::copy_out, "cudaErrorMemoryAllocation");
  rig.device.refuse(
      GetParam() == completion_mode::poll ? manual_device::call::record : manual_device::call::on_complete,
      "cudaErrorMemoryAllocation");
  rig.submit(1);
  rig.settle();
  EXPECT_FALSE(rig.path.lost());
  EXPECT_EQ(rig.reply(1).code, status::failed);
  EXPECT_EQ(rig.slots.free(), 3U);
  rig.end_in_peace();
}

TEST_P(DispatcherEnd, SeesThatAnIdleDeviceHasFailed) {
  dispatch_rig rig(rig_shape{4, 1, GetParam(), 1024});
  rig.path.check_device(rig.now, std::chrono::seconds{1});
  EXPECT_FALSE(rig.path.lost());
  rig.device.lose("cudaErrorECCUncorrectable");
  rig.path.check_device(rig.now, std::chrono::seconds{1});
  ASSERT_TRUE(rig.path.lost());
  EXPECT_EQ(rig.path.lost()->error, "cudaErrorECCUncorrectable");
}

TEST_P(DispatcherEnd, EndsAllOnceWhateverCompletesLater) {
  rig_.path.end_all(status::device_failed, {"the device is lost", "executing", "", "cudaErrorUnknown"});
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

TEST_P(DispatcherEnd, LaunchesNothingAfterEndAllAndGetsEverySlotBack) {
  dispatch_rig rig(rig_shape{4, 1, GetParam(), 1024});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    rig.submit(id, {.frames = 8});
    rig.settle();
  }
  rig.submit(4);
  const std::size_t marks = rig.device.marks();
  rig.path.end_all(status::shutdown, {"stopped", "executing", "", ""});
  rig.device.finish_all();
  rig.settle();
  EXPECT_EQ(rig.device.marks(), marks);
  EXPECT_EQ(rig.slots.free(), 4U);
  EXPECT_EQ(rig.replied.count, 4U);
  EXPECT_TRUE(rig.path.idle());
}

TEST_P(DispatcherEnd, DrainAnswersTheQueueAndFinishesTheRest) {
  rig_.path.drain();
  EXPECT_EQ(rig_.reply(3).code, status::shutdown);
  EXPECT_EQ(rig_.reply(3).why.step, "queued");
  EXPECT_FALSE(rig_.path.idle());
  finish_all();
  EXPECT_EQ(rig_.reply(1).code, status::ok);
  EXPECT_EQ(rig_.reply(2).code, status::ok);
  EXPECT_TRUE(rig_.path.idle());
  rig_.check();
}

TEST_P(DispatcherEnd, DrainClosesABatchThatWouldWait) {
  dispatch_rig rig(rig_shape{4, 1, GetParam(), 1024});
  rig.submit(1);
  rig.settle();
  rig.submit(2);
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 1U);
  rig.path.drain();
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 2U);
  EXPECT_EQ(rig.closed(close_reason::drain), 1U);
  rig.device.finish_all();
  rig.settle();
  EXPECT_TRUE(rig.path.idle());
  EXPECT_EQ(rig.counters.requests.results, 2U);
}

TEST_P(DispatcherEnd, CallsTheDeviceHungAfterTheLimitAndNotBefore) {
  constexpr std::chrono::seconds patience{1};
  const time_point launched = rig_.now;
  rig_.path.check_device(launched + patience, patience);
  EXPECT_FALSE(rig_.path.lost());
  rig_.path.check_device(launched + patience + std::chrono::nanoseconds{1}, patience);
  ASSERT_TRUE(rig_.path.lost());
  EXPECT_EQ(rig_.path.lost()->error, "a batch hangs");
  EXPECT_EQ(rig_.path.lost()->pipeline, "pipeline0");
  EXPECT_EQ(rig_.path.lost()->stage, "");
}

TEST_P(DispatcherEnd, CallsABatchHungLaterWhileOthersAreDone) {
  constexpr std::chrono::seconds patience{1};
  dispatch_rig rig(rig_shape{4, 2, GetParam()});
  const time_point launched = rig.now;
  rig.submit(1);
  rig.settle();
  for (std::uint64_t id = 2; rig.now < launched + 10 * patience; ++id) {
    rig.submit(id);
    rig.settle();
    rig.now += std::chrono::milliseconds{500};
    rig.finish(1);
    rig.path.check_device(rig.now, patience);
    EXPECT_FALSE(rig.path.lost()) << "others are done all the time";
  }
  rig.path.check_device(rig.now + std::chrono::nanoseconds{1}, patience);
  EXPECT_TRUE(rig.path.lost());
  rig.device.finish_all();
}

TEST_P(DispatcherEnd, DoesNotCallAnIdleDeviceHung) {
  finish_all();
  rig_.path.check_device(never, std::chrono::seconds{1});
  EXPECT_FALSE(rig_.path.lost());
}

TEST_P(DispatcherEnd, SaysForHowLongTheDeviceHasFinishedNothing) {
  EXPECT_EQ(rig_.path.standing_still(rig_.now + std::chrono::seconds{3}), std::chrono::seconds{3});
}

TEST_P(DispatcherEnd, StandsStillNoLongerThanSinceABatchWasDone) {
  dispatch_rig rig(rig_shape{4, 2, GetParam()});
  for (const std::uint64_t id : {1U, 2U}) {
    rig.submit(id);
    rig.settle();
  }
  rig.now += std::chrono::seconds{5};
  rig.finish(1);
  EXPECT_EQ(rig.path.standing_still(rig.now + std::chrono::seconds{1}), std::chrono::seconds{1});
  rig.device.finish_all();
}

TEST_P(DispatcherEnd, NeverStandsStillWithNothingToDo) {
  finish_all();
  EXPECT_EQ(rig_.path.standing_still(rig_.now + std::chrono::hours{1}), std::chrono::nanoseconds{0});
}

INSTANTIATE_TEST_SUITE_P(Modes, DispatcherEnd, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock
