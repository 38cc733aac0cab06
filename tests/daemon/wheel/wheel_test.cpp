#include "daemon/wheel/wheel.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/wheel/wheel_fixture.hpp"
#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using testing::manual_device;

class Wheel : public testing::wheel_fixture {};

TEST_P(Wheel, SaysIdleThenSomeThenNone) {
  for (int batch = 0; batch < streams; ++batch) {
    EXPECT_EQ(wheel_->room(stream_priority::normal), wheel_room::idle);
    launch();
  }
  for (int batch = 0; batch < streams; ++batch) {
    EXPECT_EQ(wheel_->room(stream_priority::normal), wheel_room::some);
    launch();
  }
  EXPECT_EQ(wheel_->room(stream_priority::normal), wheel_room::none);
  EXPECT_EQ(wheel_->in_flight(), 6U);
}

TEST_P(Wheel, LetsAPipelinesOnlyBatchStandBehindShortOnes) {
  for (int batch = 0; batch < 2 * streams; ++batch) {
    EXPECT_EQ(wheel_->room(stream_priority::normal, true), wheel_room::idle);
    launch();
  }
  EXPECT_EQ(wheel_->room(stream_priority::normal, true), wheel_room::none);
}

TEST_P(Wheel, MakesAPipelinesOnlyBatchWaitForLongOnes) {
  slot& slow = launch();
  device_.finish(0);
  ASSERT_EQ(completions(), std::vector<slot*>{&slow});
  wheel_->retire(slow, start + 16 * wheel::short_batch);
  EXPECT_EQ(wheel_->room(stream_priority::normal, true), wheel_room::idle) << "nobody is before it";
  for (int batch = 0; batch < streams; ++batch) {
    launch();
  }
  EXPECT_EQ(wheel_->room(stream_priority::normal, true), wheel_room::some);
}

TEST_P(Wheel, SaysWhenHalfOfItIsTakenUnlessBatchesAreShort) {
  time_point now = start;
  const auto run_some = [&](std::chrono::nanoseconds each_takes) {
    for (int batch = 0; batch < 64; ++batch) {
      slot& ran = batch_of(std::string(16, 'x'));
      EXPECT_FALSE(wheel_->launch(ran, now).what);
      now += each_takes;
      device_.finish_all();
      EXPECT_EQ(completions(), std::vector<slot*>{&ran});
      wheel_->retire(ran, now);
      ring::drop(ran);
      slots_->collect();
    }
  };
  run_some(wheel::short_batch / 2);
  launch();
  EXPECT_FALSE(wheel_->half_taken(stream_priority::normal));
  device_.finish_all();
  for (slot* const each : completions()) {
    wheel_->retire(*each, now);
  }
  run_some(2 * wheel::short_batch);
  EXPECT_FALSE(wheel_->half_taken(stream_priority::normal));
  launch();
  EXPECT_TRUE(wheel_->half_taken(stream_priority::normal));
}

TEST_P(Wheel, FillsEveryStreamBeforeASecondBatch) {
  for (int batch = 0; batch < streams; ++batch) {
    launch();
  }
  for (std::size_t stream = 0; stream < streams; ++stream) {
    EXPECT_EQ(device_.pending(stream), 1U);
  }
}

TEST_P(Wheel, TakesTheStreamThatIsFreeOutOfTurn) {
  for (int batch = 0; batch < streams; ++batch) {
    launch();
  }
  device_.finish(1);
  const std::vector<slot*> done = completions();
  ASSERT_EQ(done.size(), 1U);
  wheel_->retire(*done.front(), start);
  EXPECT_EQ(wheel_->room(stream_priority::normal), wheel_room::idle);
  launch();
  EXPECT_EQ(device_.pending(1), 1U);
}

TEST_P(Wheel, HasNoRoomUntilACompletionIsRetired) {
  std::vector<slot*> batches;
  for (int batch = 0; batch < 2 * streams; ++batch) {
    batches.push_back(&launch());
  }
  device_.finish(0);
  const std::vector<slot*> done = completions();
  ASSERT_EQ(done, std::vector<slot*>{batches[0]});
  EXPECT_EQ(wheel_->room(stream_priority::normal), wheel_room::none);
  wheel_->retire(*batches[0], start);
  EXPECT_EQ(wheel_->room(stream_priority::normal), wheel_room::some);
}

TEST_P(Wheel, BringsResultsIntoThePinnedOutput) {
  const std::string payload = testing::payload_of(48, 1);
  slot& batch = launch(payload);
  device_.finish(0);
  ASSERT_EQ(completions(), std::vector<slot*>{&batch});
  EXPECT_FALSE(batch.completed.status);
  EXPECT_EQ(std::memcmp(batch.pinned_output.get(), testing::next_of(payload).data(), 48), 0);
  const std::vector<std::int32_t> sums = testing::sums_of(payload, 3);
  EXPECT_EQ(std::memcmp(batch.pinned_output.get() + plans_[0].outputs[1].pinned_offset, sums.data(), 12), 0);
}

TEST_P(Wheel, CopiesNothingThatTheDeviceMayReadAndWriteInPlace) {
  device_.work_in_place_up_to(32);
  wheel_ = std::make_unique<wheel>(device_, streams, std::array{stream_priority::normal}, GetParam(), states_);
  const std::string small = testing::payload_of(16, 1);
  const std::string large = testing::payload_of(48, 2);
  device_.refuse(manual_device::call::copy_in, "NO_COPY_IN");
  device_.refuse(manual_device::call::copy_out, "NO_COPY_OUT");
  slot& in_place = launch(small);
  slot& copied = batch_of(large);
  EXPECT_STREQ(wheel_->launch(copied, start).what.name, "NO_COPY_IN");
  device_.finish_all();
  const auto* const next = reinterpret_cast<const char*>(in_place.pinned_output.get());
  EXPECT_EQ(std::string(next + plans_.front().outputs[0].pinned_offset, 16), testing::next_of(small));
}

TEST_P(Wheel, CopiesForPlansThatGoOverTheirMemoryMoreThanOnce) {
  device_.pass_in_place_up_to(32);
  for (const bool once : {true, false}) {
    plans_.front().single_pass = once;
    wheel_ = std::make_unique<wheel>(device_, streams, std::array{stream_priority::normal}, GetParam(), states_);
    device_.refuse(manual_device::call::copy_in, "NO_COPY_IN");
    const char* const met = wheel_->launch(batch_of(std::string(16, 'x')), start).what.name;
    EXPECT_STREQ(met, once ? nullptr : "NO_COPY_IN");
    device_.finish_all();
  }
}

TEST_P(Wheel, LeavesSmallerPayloadsWhereTheyAreForPlansThatGoOverThemOnce) {
  device_.read_payloads_from(64);
  device_.read_single_pass_payloads_from(32);
  wheel_ = std::make_unique<wheel>(device_, streams, std::array{stream_priority::normal}, GetParam(), states_);
  plans_.front().single_pass = true;
  EXPECT_EQ(wheel_->in_place_bytes(plans_.front()), 32U);
  plans_.front().single_pass = false;
  EXPECT_EQ(wheel_->in_place_bytes(plans_.front()), 64U);
}

TEST_P(Wheel, CompletesEachBatchOnceInTheOrderOfItsStream) {
  std::vector<slot*> batches;
  for (int batch = 0; batch < 2 * streams; ++batch) {
    batches.push_back(&launch());
  }
  EXPECT_TRUE(completions().empty());
  device_.finish(0);
  device_.finish(0);
  EXPECT_EQ(completions(), (std::vector<slot*>{batches[0], batches[3]}));
  EXPECT_TRUE(completions().empty());
}

TEST_P(Wheel, TellsTheFaultOfABatch) {
  slot& batch = launch();
  device_.finish(0, {"cudaErrorIllegalAddress"});
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_STREQ(batch.completed.status.name, "cudaErrorIllegalAddress");
}

TEST_P(Wheel, ForgetsTheFaultOfTheBatchBefore) {
  slot& batch = launch();
  device_.finish(0, {"cudaErrorIllegalAddress"});
  ASSERT_EQ(completions().size(), 1U);
  wheel_->retire(batch, start);
  (void)wheel_->launch(batch, start);
  device_.finish(batch.streams.front());
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_FALSE(batch.completed.status);
}

TEST_P(Wheel, NamesTheStageAtWhichALaunchIsRefused) {
  device_.refuse(manual_device::call::launch, "cudaErrorLaunchFailure");
  const launch_fault failed = wheel_->launch(batch_of(std::string(16, 'x')), start);
  EXPECT_STREQ(failed.what.name, "cudaErrorLaunchFailure");
  EXPECT_STREQ(failed.stage, "next");
}

// The work that was enqueued before the fault still runs: a batch whose end was not enqueued is never reported as done.
TEST_P(Wheel, NeverCompletesABatchOfWhichACallWasRefused) {
  const auto mark =
      GetParam() == completion_mode::callback ? manual_device::call::on_complete : manual_device::call::record;
  for (const auto call :
       {manual_device::call::copy_in, manual_device::call::launch, manual_device::call::copy_out, mark}) {
    device_.refuse(call, "cudaErrorUnknown");
    const launch_fault failed = wheel_->launch(batch_of(std::string(16, 'x')), start);
    ASSERT_TRUE(failed.what);
    device_.finish_all();
    EXPECT_TRUE(completions().empty());
  }
}

TEST_P(Wheel, CompletesARefusedBatchBehindItsFence) {
  device_.refuse(manual_device::call::copy_out, "cudaErrorUnknown");
  slot& refused = batch_of(std::string(16, 'x'));
  ASSERT_TRUE(wheel_->launch(refused, start).what);
  ASSERT_FALSE(wheel_->fence(refused));
  EXPECT_TRUE(completions().empty());
  device_.finish_all();
  EXPECT_EQ(completions().size(), 1U);
}

TEST_P(Wheel, WarmsUpEveryStreamAndLeavesItIdle) {
  slot& scratch = *slots_->claim();
  EXPECT_EQ(wheel_->warm_up(plans_.front(), scratch), 0) << "the device runs nothing inline";
  EXPECT_EQ(wheel_->room(stream_priority::normal), wheel_room::idle);
  EXPECT_EQ(wheel_->in_flight(), 0U);
  EXPECT_TRUE(completions().empty());
}

TEST_P(Wheel, SaysWhatFailedInTheWarmUp) {
  slot& scratch = *slots_->claim();
  device_.refuse(manual_device::call::launch, "cudaErrorNoKernelImageForDevice");
  try {
    (void)wheel_->warm_up(plans_.front(), scratch);
    FAIL() << "it did not throw";
  } catch (const device_error& error) {
    EXPECT_STREQ(error.what(),
                 "pipeline 'pipeline0': the first launch failed at stage 'next': cudaErrorNoKernelImageForDevice");
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Wheel,
                         ::testing::Values(completion_mode::callback, completion_mode::poll,
                                           completion_mode::automatic),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll       ? "Poll"
                                  : mode.param == completion_mode::callback ? "Callback"
                                                                            : "Automatic";
                         });

}  // namespace
}  // namespace penstock
