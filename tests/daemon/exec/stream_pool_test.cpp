#include "daemon/exec/stream_pool.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/shm/segment.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/manual_device.hpp"
#include "tests/support/scheduler_rig.hpp"

namespace penstock {
namespace {

using testing::hand_made_plans;
using testing::manual_device;
using namespace std::chrono_literals;

/// A stream pool over three streams and the slots to fill it, in each completion mode.
class stream_pool_fixture : public ::testing::TestWithParam<completion_mode> {
 protected:
  static constexpr int streams = 3;
  static constexpr time_point start{std::chrono::hours{1}};

  stream_pool_fixture() { make_stream_pool(true); }

  void make_stream_pool(bool events_come_first) {
    device_.let_events_come_first(events_come_first);
    stream_pool_ = std::make_unique<stream_pool>(device_, streams, std::array{stream_class{}}, GetParam(), states_);
  }

  slot& batch_of(const std::string& payload) {
    slot& filled = *slots_->claim();
    filled.work.pipeline = &plans_.front();
    filled.work.leading = 16;
    filled.work.frames = static_cast<std::int64_t>(payload.size() / 16);
    std::memcpy(filled.pinned_input.get(), payload.data(), payload.size());
    return filled;
  }
  slot& launch(const std::string& payload = std::string(16, 'x')) {
    slot& filled = batch_of(payload);
    EXPECT_FALSE(stream_pool_->launch(filled, start).error);
    return filled;
  }
  // Every slot whose completion has come, oldest first.
  std::vector<slot*> completions() {
    stream_pool_->poll();
    std::vector<slot*> all;
    for (completion_node* node = completed_.take(); node != nullptr; node = node->next) {
      all.push_back(node->owner);
    }
    return all;
  }

  std::vector<plan> plans_ = hand_made_plans({{}});
  manual_device device_;
  wake_event signal_;
  completion_queue completed_{signal_};
  std::unique_ptr<slot_ring> slots_ = std::make_unique<slot_ring>(
      device_, 8, size_for(plans_), GetParam() != completion_mode::callback, completed_, signal_);
  state_pool states_{device_, plans_, 1};
  std::unique_ptr<stream_pool> stream_pool_;
};

class StreamPool : public stream_pool_fixture {};

TEST_P(StreamPool, SaysIdleThenSomeThenNone) {
  for (int batch = 0; batch < streams; ++batch) {
    EXPECT_EQ(stream_pool_->room(stream_priority::normal), stream_room::idle);
    launch();
  }
  for (int batch = 0; batch < streams; ++batch) {
    EXPECT_EQ(stream_pool_->room(stream_priority::normal), stream_room::some);
    launch();
  }
  EXPECT_EQ(stream_pool_->room(stream_priority::normal), stream_room::none);
  EXPECT_EQ(stream_pool_->in_flight(), 6U);
}

TEST_P(StreamPool, LetsAPipelinesOnlyBatchStandBehindShortOnes) {
  for (int batch = 0; batch < 2 * streams; ++batch) {
    EXPECT_EQ(stream_pool_->room(stream_priority::normal, true), stream_room::idle);
    launch();
  }
  EXPECT_EQ(stream_pool_->room(stream_priority::normal, true), stream_room::none);
}

TEST_P(StreamPool, MakesAPipelinesOnlyBatchWaitForLongOnes) {
  slot& slow = launch();
  device_.finish(0);
  ASSERT_EQ(completions(), std::vector<slot*>{&slow});
  stream_pool_->retire(slow, start + 16 * stream_pool::short_batch);
  EXPECT_EQ(stream_pool_->room(stream_priority::normal, true), stream_room::idle) << "nobody is before it";
  for (int batch = 0; batch < streams; ++batch) {
    launch();
  }
  EXPECT_EQ(stream_pool_->room(stream_priority::normal, true), stream_room::some);
}

TEST_P(StreamPool, SaysWhenHalfOfItIsTakenUnlessBatchesAreShort) {
  time_point now = start;
  const auto run_some = [&](std::chrono::nanoseconds each_takes) {
    for (int batch = 0; batch < 64; ++batch) {
      slot& ran = batch_of(std::string(16, 'x'));
      EXPECT_FALSE(stream_pool_->launch(ran, now).error);
      now += each_takes;
      device_.finish_all();
      EXPECT_EQ(completions(), std::vector<slot*>{&ran});
      stream_pool_->retire(ran, now);
      slot_ring::drop(ran);
      slots_->collect();
    }
  };
  run_some(stream_pool::short_batch / 2);
  launch();
  EXPECT_FALSE(stream_pool_->half_taken(stream_priority::normal));
  device_.finish_all();
  for (slot* const each : completions()) {
    stream_pool_->retire(*each, now);
  }
  run_some(2 * stream_pool::short_batch);
  EXPECT_FALSE(stream_pool_->half_taken(stream_priority::normal));
  launch();
  EXPECT_TRUE(stream_pool_->half_taken(stream_priority::normal));
}

TEST_P(StreamPool, FillsEveryStreamBeforeASecondBatch) {
  for (int batch = 0; batch < streams; ++batch) {
    launch();
  }
  for (std::size_t stream = 0; stream < streams; ++stream) {
    EXPECT_EQ(device_.pending(stream), 1U);
  }
}

TEST_P(StreamPool, TakesTheStreamThatIsFreeOutOfTurn) {
  for (int batch = 0; batch < streams; ++batch) {
    launch();
  }
  device_.finish(1);
  const std::vector<slot*> done = completions();
  ASSERT_EQ(done.size(), 1U);
  stream_pool_->retire(*done.front(), start);
  EXPECT_EQ(stream_pool_->room(stream_priority::normal), stream_room::idle);
  launch();
  EXPECT_EQ(device_.pending(1), 1U);
}

TEST_P(StreamPool, HasNoRoomUntilACompletionIsRetired) {
  std::vector<slot*> batches;
  for (int batch = 0; batch < 2 * streams; ++batch) {
    batches.push_back(&launch());
  }
  device_.finish(0);
  const std::vector<slot*> done = completions();
  ASSERT_EQ(done, std::vector<slot*>{batches[0]});
  EXPECT_EQ(stream_pool_->room(stream_priority::normal), stream_room::none);
  stream_pool_->retire(*batches[0], start);
  EXPECT_EQ(stream_pool_->room(stream_priority::normal), stream_room::some);
}

TEST_P(StreamPool, BringsResultsIntoThePinnedOutput) {
  const std::string payload = testing::payload_of(48, 1);
  slot& batch = launch(payload);
  device_.finish(0);
  ASSERT_EQ(completions(), std::vector<slot*>{&batch});
  EXPECT_FALSE(batch.completed.status);
  EXPECT_EQ(std::memcmp(batch.pinned_output.get(), testing::next_of(payload).data(), 48), 0);
  const std::vector<std::int32_t> sums = testing::sums_of(payload, 3);
  EXPECT_EQ(std::memcmp(batch.pinned_output.get() + plans_[0].outputs[1].pinned_offset, sums.data(), 12), 0);
}

TEST_P(StreamPool, CopiesNothingThatTheDeviceMayReadAndWriteInPlace) {
  device_.work_in_place_up_to(32);
  stream_pool_ = std::make_unique<stream_pool>(device_, streams, std::array{stream_class{}}, GetParam(), states_);
  const std::string small = testing::payload_of(16, 1);
  const std::string large = testing::payload_of(48, 2);
  device_.refuse(manual_device::call::copy_in, "NO_COPY_IN");
  device_.refuse(manual_device::call::copy_out, "NO_COPY_OUT");
  slot& in_place = launch(small);
  slot& copied = batch_of(large);
  EXPECT_STREQ(stream_pool_->launch(copied, start).error.name, "NO_COPY_IN");
  device_.finish_all();
  const auto* const next = reinterpret_cast<const char*>(in_place.pinned_output.get());
  EXPECT_EQ(std::string(next + plans_.front().outputs[0].pinned_offset, 16), testing::next_of(small));
}

TEST_P(StreamPool, CopiesForPlansThatGoOverTheirMemoryMoreThanOnce) {
  device_.pass_in_place_up_to(32);
  for (const bool once : {true, false}) {
    plans_.front().single_pass = once;
    stream_pool_ = std::make_unique<stream_pool>(device_, streams, std::array{stream_class{}}, GetParam(), states_);
    device_.refuse(manual_device::call::copy_in, "NO_COPY_IN");
    const char* const met = stream_pool_->launch(batch_of(std::string(16, 'x')), start).error.name;
    EXPECT_STREQ(met, once ? nullptr : "NO_COPY_IN");
    device_.finish_all();
  }
}

TEST_P(StreamPool, LeavesSmallerPayloadsWhereTheyAreForPlansThatGoOverThemOnce) {
  device_.read_payloads_from(64);
  device_.read_single_pass_payloads_from(32);
  stream_pool_ = std::make_unique<stream_pool>(device_, streams, std::array{stream_class{}}, GetParam(), states_);
  plans_.front().single_pass = true;
  EXPECT_EQ(stream_pool_->in_place_bytes(plans_.front()), 32U);
  plans_.front().single_pass = false;
  EXPECT_EQ(stream_pool_->in_place_bytes(plans_.front()), 64U);
}

TEST_P(StreamPool, CompletesEachBatchOnceInTheOrderOfItsStream) {
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

TEST_P(StreamPool, TellsTheFaultOfABatch) {
  slot& batch = launch();
  device_.finish(0, {"cudaErrorIllegalAddress"});
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_STREQ(batch.completed.status.name, "cudaErrorIllegalAddress");
}

TEST_P(StreamPool, ForgetsTheFaultOfTheBatchBefore) {
  slot& batch = launch();
  device_.finish(0, {"cudaErrorIllegalAddress"});
  ASSERT_EQ(completions().size(), 1U);
  stream_pool_->retire(batch, start);
  (void)stream_pool_->launch(batch, start);
  device_.finish(batch.streams.front());
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_FALSE(batch.completed.status);
}

TEST_P(StreamPool, NamesTheStageAtWhichALaunchIsRefused) {
  device_.refuse(manual_device::call::launch, "cudaErrorLaunchFailure");
  const launch_fault failed = stream_pool_->launch(batch_of(std::string(16, 'x')), start);
  EXPECT_STREQ(failed.error.name, "cudaErrorLaunchFailure");
  EXPECT_STREQ(failed.stage, "next");
}

// The work that was enqueued before the fault still runs: a batch whose end was not enqueued is never reported as done.
TEST_P(StreamPool, NeverCompletesABatchOfWhichACallWasRefused) {
  const auto mark =
      GetParam() == completion_mode::callback ? manual_device::call::on_complete : manual_device::call::record;
  for (const auto call :
       {manual_device::call::copy_in, manual_device::call::launch, manual_device::call::copy_out, mark}) {
    device_.refuse(call, "cudaErrorUnknown");
    const launch_fault failed = stream_pool_->launch(batch_of(std::string(16, 'x')), start);
    ASSERT_TRUE(failed.error);
    device_.finish_all();
    EXPECT_TRUE(completions().empty());
  }
}

TEST_P(StreamPool, CompletesARefusedBatchBehindItsFence) {
  device_.refuse(manual_device::call::copy_out, "cudaErrorUnknown");
  slot& refused = batch_of(std::string(16, 'x'));
  ASSERT_TRUE(stream_pool_->launch(refused, start).error);
  ASSERT_FALSE(stream_pool_->fence(refused));
  EXPECT_TRUE(completions().empty());
  device_.finish_all();
  EXPECT_EQ(completions().size(), 1U);
}

TEST_P(StreamPool, WarmsUpEveryStreamAndLeavesItIdle) {
  slot& scratch = *slots_->claim();
  EXPECT_EQ(stream_pool_->warm_up(plans_.front(), scratch), 0) << "the device runs nothing inline";
  EXPECT_EQ(stream_pool_->room(stream_priority::normal), stream_room::idle);
  EXPECT_EQ(stream_pool_->in_flight(), 0U);
  EXPECT_TRUE(completions().empty());
}

TEST_P(StreamPool, SaysWhatFailedInTheWarmUp) {
  slot& scratch = *slots_->claim();
  device_.refuse(manual_device::call::launch, "cudaErrorNoKernelImageForDevice");
  try {
    (void)stream_pool_->warm_up(plans_.front(), scratch);
    FAIL() << "it did not throw";
  } catch (const device_error& error) {
    EXPECT_STREQ(error.what(),
                 "pipeline 'pipeline0': the first launch failed at stage 'next': cudaErrorNoKernelImageForDevice");
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, StreamPool,
                         ::testing::Values(completion_mode::callback, completion_mode::poll,
                                           completion_mode::automatic),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll       ? "Poll"
                                  : mode.param == completion_mode::callback ? "Callback"
                                                                            : "Automatic";
                         });

class AutomaticCompletion : public stream_pool_fixture {
 protected:
  // One batch, from its launch to its completion; whether the shard had to ask for its end.
  bool polls_for_batch_of(std::chrono::nanoseconds span) {
    EXPECT_FALSE(stream_pool_->launch(batch_of(std::string(16, 'x')), now_).error);
    const bool polls = stream_pool_->polling();
    device_.finish_all();
    now_ += span;
    for (slot* const each : completions()) {
      stream_pool_->retire(*each, now_);
      slot_ring::drop(*each);
    }
    slots_->collect();
    EXPECT_FALSE(stream_pool_->polling());
    EXPECT_EQ(stream_pool_->in_flight(), 0U);
    return polls;
  }
  bool polls_after(std::chrono::nanoseconds span) {
    bool polls = false;
    for (int batch = 0; batch < 64; ++batch) {
      polls = polls_for_batch_of(span);
    }
    return polls;
  }

 private:
  time_point now_ = start;
};

TEST_P(AutomaticCompletion, PollsForShortBatchesAndHasCallbacksForLongOnes) {
  EXPECT_TRUE(polls_for_batch_of({})) << "nothing is known yet";
  EXPECT_TRUE(polls_after(stream_pool::long_batch / 2));
  EXPECT_FALSE(polls_after(2 * stream_pool::long_batch));
  EXPECT_TRUE(polls_after(stream_pool::long_batch / 2));
}

TEST_P(AutomaticCompletion, HasCallbacksWhereEventsAreNoQuicker) {
  make_stream_pool(false);
  EXPECT_FALSE(polls_for_batch_of({}));
  EXPECT_FALSE(polls_after(stream_pool::long_batch / 2));
}

INSTANTIATE_TEST_SUITE_P(Mode, AutomaticCompletion, ::testing::Values(completion_mode::automatic));

// By this thread.
std::chrono::nanoseconds worked() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

/// Takes its time for batches of more frames than some.
class slow_for_many : public operation {
 public:
  slow_for_many(std::unique_ptr<operation> what, std::int64_t quick_frames, std::chrono::milliseconds time)
      : what_(std::move(what)), quick_frames_(quick_frames), time_(time) {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if (arguments.extent.frames > quick_frames_) {
      const auto until = worked() + time_;
      while (worked() < until) {
      }
    }
    return what_->run(stream, arguments);
  }

 private:
  std::unique_ptr<operation> what_;
  std::int64_t quick_frames_;
  std::chrono::milliseconds time_;
};

/// A device whose streams run inline, and hold what they are not told to.
class InlineLaunch : public stream_pool_fixture {
 protected:
  static constexpr std::int64_t frame_steps = 16;

  void run_inline_up_to(std::chrono::microseconds limit) {
    device_.run_inline_up_to(limit);
    stream_pool_ = std::make_unique<stream_pool>(device_, streams, std::array{stream_class{}}, GetParam(), states_);
  }
  std::int64_t warm_up() {
    slot& scratch = *slots_->claim();
    const std::int64_t steps = stream_pool_->warm_up(plans_.front(), scratch);
    slot_ring::drop(scratch);
    slots_->collect();
    return steps;
  }
};

TEST_P(InlineLaunch, MeasuresHowManyStepsAreBrief) {
  run_inline_up_to(1h);
  EXPECT_EQ(warm_up(), plans_.front().max_frames * frame_steps);
  std::unique_ptr<operation>& first = plans_.front().stages.front().compiled;
  first = std::make_unique<slow_for_many>(std::move(first), 3, 60ms);
  run_inline_up_to(30ms);
  EXPECT_EQ(warm_up(), 2 * frame_steps);
  first = std::make_unique<slow_for_many>(std::move(first), 0, 60ms);
  EXPECT_EQ(warm_up(), 0);
}

TEST_P(InlineLaunch, HandsOverWhatNobodySaidIsBrief) {
  run_inline_up_to(1h);
  launch();
  EXPECT_TRUE(completions().empty());
  EXPECT_EQ(device_.pending(), 1U);
}

TEST_P(InlineLaunch, RunsBriefBatchesWithinTheLaunch) {
  run_inline_up_to(1h);
  stream_pool_->set_inline_steps(plans_.front().place, 2 * frame_steps);
  slot& brief = launch(std::string(32, 'a'));
  EXPECT_EQ(device_.pending(), 0U);
  ASSERT_EQ(completions(), std::vector<slot*>{&brief});
  EXPECT_EQ(std::memcmp(brief.pinned_output.get(), testing::next_of(std::string(32, 'a')).data(), 32), 0);
  stream_pool_->retire(brief, start);
  EXPECT_EQ(stream_pool_->in_flight(), 0U);
}

TEST_P(InlineLaunch, HandsOverWhatHasMoreSteps) {
  run_inline_up_to(1h);
  stream_pool_->set_inline_steps(plans_.front().place, 2 * frame_steps);
  for (int batch = 0; batch < streams; ++batch) {
    launch(std::string(48, 'a'));
    EXPECT_TRUE(completions().empty());
  }
  EXPECT_EQ(device_.pending(), 3U);
}

TEST_P(InlineLaunch, HandsOverForAWhileWhatHasTakenLonger) {
  constexpr int launches_to_try_more = 1024;
  std::unique_ptr<operation>& first = plans_.front().stages.front().compiled;
  first = std::make_unique<slow_for_many>(std::move(first), 1, 60ms);
  run_inline_up_to(30ms);
  stream_pool_->set_inline_steps(plans_.front().place, 2 * frame_steps);
  // Whether a batch of so many frames is done within its launch.
  const auto inline_ran = [this](std::size_t frames) {
    slot& batch = launch(std::string(frames * 16, 'a'));
    const bool done = completions() == std::vector<slot*>{&batch};
    device_.finish_all();
    (void)completions();
    stream_pool_->retire(batch, start);
    slot_ring::drop(batch);
    slots_->collect();
    return done;
  };
  EXPECT_TRUE(inline_ran(2)) << "nothing is known yet";
  EXPECT_FALSE(inline_ran(2));
  for (int each = 1; each < launches_to_try_more - 1; ++each) {
    ASSERT_TRUE(inline_ran(1));
  }
  EXPECT_TRUE(inline_ran(2)) << "tried again";
  EXPECT_FALSE(inline_ran(2));
}

TEST_P(InlineLaunch, KeepsTheOrderOfAStreamThatIsTakenByMore) {
  run_inline_up_to(1h);
  stream_pool_->set_inline_steps(plans_.front().place, frame_steps);
  std::vector<slot*> all;
  for (int batch = 0; batch < streams; ++batch) {
    all.push_back(&launch(std::string(32, 'a')));
  }
  all.push_back(&launch(std::string(16, 'b')));
  ASSERT_EQ(all.back()->streams, all.front()->streams);
  EXPECT_EQ(completions(), (std::vector<slot*>{all.front(), all.back()})) << "a manual stream does all that it has";
}

/// A pool of a pipeline that blocks: its operations work on host memory.
class BlockingLane : public stream_pool_fixture {
 protected:
  BlockingLane() {
    plans_ = hand_made_plans({{.blocks = true}});
    slots_ = std::make_unique<slot_ring>(device_, 8, size_for(plans_), GetParam() != completion_mode::callback,
                                         completed_, signal_);
    device_.let_events_come_first(true);
    stream_pool_ =
        std::make_unique<stream_pool>(device_, streams, std::array{plans_.front().streams()}, GetParam(), states_);
  }

  /// A batch of requests of a frame each, of which all but the second are in shared memory.
  slot& batch_in_arena(std::size_t requests) {
    slot& filled = batch_of(payload_.substr(0, 16 * requests));
    filled.work.payload = payload_mode::shared;
    for (std::size_t each = 0; each < requests; ++each) {
      request& made = requests_[each];
      made = {};
      made.pipeline = &plans_.front();
      made.payload = each == 1 ? payload_mode::copied : payload_mode::shared;
      made.frames = 1;
      made.leading = 16;
      made.bytes = 16;
      made.first_frame = static_cast<std::int64_t>(each);
      if (each != 1) {
        made.shared.input = reinterpret_cast<const std::byte*>(payload_.data()) + 16 * each;
        made.shared.arena = &arena_;
        made.shared.output = arena_.at(1024 * each);
        std::memset(filled.pinned_input.get() + 16 * each, 0, 16);
      }
      filled.work.requests.push_back(&made);
    }
    return filled;
  }
  /// What a request in shared memory got there.
  std::string next_in_arena(std::size_t request) {
    return {reinterpret_cast<const char*>(arena_.at(1024 * request)), 16};
  }

  const std::string payload_ = testing::payload_of(48, 1);
  std::array<request, 3> requests_;
  struct : arena_owner {
    void take_back(client_arena& /*unused*/) noexcept override {}
  } owner_;
  client_arena arena_{1, 4096, device_, owner_};
};

TEST_P(BlockingLane, HasOneStreamAndNeverPolls) {
  EXPECT_EQ(stream_pool_->streams(), 1U);
  slot& first = launch(payload_);
  EXPECT_FALSE(stream_pool_->polling());
  device_.finish(0);
  EXPECT_EQ(completions(), std::vector<slot*>{&first});
}

TEST_P(BlockingLane, IsHalfTakenByOneLongBatch) {
  const stream_class lane = plans_.front().streams();
  slot& slow = launch(payload_);
  EXPECT_FALSE(stream_pool_->half_taken(lane)) << "nothing is known to be long yet";
  device_.finish(0);
  ASSERT_EQ(completions(), std::vector<slot*>{&slow});
  stream_pool_->retire(slow, start + 16 * stream_pool::short_batch);
  EXPECT_FALSE(stream_pool_->half_taken(lane));
  launch(payload_);
  EXPECT_TRUE(stream_pool_->half_taken(lane));
}

TEST_P(BlockingLane, WorksInPinnedMemoryWithoutCopies) {
  device_.refuse(manual_device::call::copy_in, "NO_COPY_IN");
  device_.refuse(manual_device::call::copy_out, "NO_COPY_OUT");
  slot& only = launch(payload_);
  device_.finish(0);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(only.pinned_output.get()), 48), testing::next_of(payload_));
}

TEST_P(BlockingLane, WorksInTheArenaOfABatchsOnlyRequest) {
  device_.refuse(manual_device::call::copy_in, "NO_COPY_IN");
  device_.refuse(manual_device::call::copy_out, "NO_COPY_OUT");
  ASSERT_FALSE(stream_pool_->launch(batch_in_arena(1), start).error);
  device_.finish(0);
  EXPECT_EQ(next_in_arena(0), testing::next_of(payload_.substr(0, 16)));
}

TEST_P(BlockingLane, CopiesWhatIsInSeveralArenas) {
  slot& batch = batch_in_arena(3);
  ASSERT_FALSE(stream_pool_->launch(batch, start).error);
  device_.finish(0);
  EXPECT_EQ(next_in_arena(0), testing::next_of(payload_.substr(0, 16)));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(batch.pinned_output.get()) + 16, 16),
            testing::next_of(payload_.substr(16, 16)));
  EXPECT_EQ(next_in_arena(2), testing::next_of(payload_.substr(32, 16)));
}

INSTANTIATE_TEST_SUITE_P(Modes, BlockingLane,
                         ::testing::Values(completion_mode::callback, completion_mode::poll,
                                           completion_mode::automatic));

INSTANTIATE_TEST_SUITE_P(Modes, InlineLaunch, ::testing::Values(completion_mode::callback, completion_mode::poll));

}  // namespace
}  // namespace penstock
