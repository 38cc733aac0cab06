#include "daemon/exec/scheduler.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/scheduler_rig.hpp"

namespace penstock {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::plan_wish;
using testing::rig_shape;
using testing::scheduler_rig;
using namespace std::chrono_literals;

class Scheduler : public ::testing::TestWithParam<completion_mode> {
 protected:
  [[nodiscard]] rig_shape shape(std::size_t slots, int streams) const { return {slots, streams, GetParam(), 1024}; }
};

TEST_P(Scheduler, AnswersWithTheResultOfThePayload) {
  scheduler_rig rig(shape(4, 2));
  rig.submit(1, {.frames = 3});
  rig.settle();
  EXPECT_EQ(rig.replies(1), 0U);
  rig.finish(0);
  EXPECT_EQ(rig.reply(1).next, testing::next_of(rig.payload(1)));
  EXPECT_EQ(rig.reply(1).sums, testing::sums_of(rig.payload(1), 3));
  rig.check();
  EXPECT_TRUE(rig.scheduling.idle());
  EXPECT_EQ(rig.slots.free(), 4U);
}

TEST_P(Scheduler, TakesOneFrameAtOnceWhenAStreamIdles) {
  scheduler_rig rig(shape(4, 2));
  rig.submit(1);
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 1U);
  EXPECT_EQ(rig.closed(close_reason::idle), 1U);
}

// Each in the order in which it sent, and the clients in the order in which their first ones came.
TEST_P(Scheduler, AnswersTheClientsOfABatchOneBehindTheOther) {
  scheduler_rig rig(shape(4, 1));
  for (const char* const name : {"a", "b", "c"}) {
    rig.client(name);
  }
  rig.submit(1, {}, "a");  // keeps the stream busy
  rig.settle();
  const std::vector<testing::recorded_replies::key> sent{{"b", 2}, {"a", 2}, {"c", 2}, {"b", 1},
                                                         {"c", 1}, {"a", 9}, {"b", 3}};
  for (const auto& [client, id] : sent) {
    rig.submit(id, {}, client);
  }
  rig.settle();
  rig.finish(0);
  rig.replied.order.clear();
  rig.finish(0);
  EXPECT_EQ(rig.tracker.of_pipeline(0).batches, 2U);
  EXPECT_EQ(rig.replied.order, (std::vector<testing::recorded_replies::key>{
                                   {"b", 2}, {"b", 1}, {"b", 3}, {"a", 2}, {"a", 9}, {"c", 2}, {"c", 1}}));
  rig.check();
}

TEST_P(Scheduler, BatchesWhatComesWhileEveryStreamIsBusy) {
  scheduler_rig rig(shape(4, 1));
  rig.submit(1);
  rig.settle();
  for (std::uint64_t id = 2; id <= 5; ++id) {
    rig.submit(id);
    rig.settle();
  }
  EXPECT_EQ(rig.device.pending(), 1U);
  rig.finish(0);
  EXPECT_EQ(rig.device.pending(), 1U);
  rig.finish(0);
  EXPECT_EQ(rig.tracker.of_pipeline(0).batches, 2U);
  EXPECT_EQ(rig.tracker.of_pipeline(0).batched_frames, 5U);
  EXPECT_EQ(rig.counters.requests.results, 5U);
  rig.check();
}

TEST_P(Scheduler, ClosesAFullBatchBehindABusyStream) {
  scheduler_rig rig(shape(4, 1));
  rig.submit(1);
  rig.settle();
  rig.submit(2, {.frames = 8});
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 2U);
  EXPECT_EQ(rig.closed(close_reason::full), 1U);
}

TEST_P(Scheduler, ClosesWhenTheDelayRunsOutAndSaysWhen) {
  scheduler_rig rig(shape(4, 1));
  rig.submit(1);
  rig.settle();
  rig.submit(2);
  rig.settle();
  EXPECT_EQ(rig.scheduling.next_decision(), rig.now + microseconds{500});
  rig.now += microseconds{499};
  EXPECT_FALSE(rig.scheduling.turn(rig.now));
  rig.now += microseconds{1};
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 2U);
  EXPECT_EQ(rig.closed(close_reason::delay), 1U);
  EXPECT_EQ(rig.scheduling.next_decision(), never);
}

TEST_P(Scheduler, SaysNeverWhileThereIsNoRoom) {
  scheduler_rig rig(shape(4, 1));
  for (std::uint64_t id = 1; id <= 2; ++id) {
    rig.submit(id, {.frames = 8});
    rig.settle();
  }
  rig.submit(3);
  rig.settle();
  EXPECT_EQ(rig.scheduling.next_decision(), never) << "a completion is what it waits for";
}

TEST_P(Scheduler, ClosesForARequestThatDoesNotFit) {
  scheduler_rig rig(shape(4, 1));
  rig.submit(1);
  rig.settle();
  rig.submit(2, {.frames = 5});
  rig.submit(3, {.frames = 4});
  rig.settle();
  EXPECT_EQ(rig.closed(close_reason::full), 1U);
  rig.finish(0);
  rig.finish(0);
  rig.finish(0);
  EXPECT_EQ(rig.counters.requests.results, 3U);
  rig.check();
}

TEST_P(Scheduler, ClosesForAnotherExtent) {
  scheduler_rig rig(shape(4, 1), {plan_wish{.variable = true}});
  rig.submit(1, {.leading = 16});
  rig.settle();
  rig.submit(2, {.frames = 2, .leading = 5});
  rig.submit(3, {.frames = 3, .leading = 5});
  rig.submit(4, {.frames = 1, .leading = 6});
  rig.settle();
  EXPECT_EQ(rig.closed(close_reason::extent), 1U);
  rig.device.finish_all();
  rig.settle();
  rig.device.finish_all();
  rig.settle();
  EXPECT_EQ(rig.tracker.of_pipeline(0).batches, 3U);
  EXPECT_EQ(rig.counters.requests.results, 4U);
  rig.check();
}

TEST_P(Scheduler, QueuesWhenNoSlotIsFreeAndFeedsInOrder) {
  scheduler_rig rig(shape(2, 1));
  for (std::uint64_t id = 1; id <= 6; ++id) {
    rig.submit(id, {.frames = 8});
    rig.settle();
  }
  EXPECT_EQ(rig.payloads.size(), 4U);
  for (std::uint64_t id = 1; id <= 6; ++id) {
    EXPECT_EQ(rig.replies(id), 0U);
    rig.finish(0);
    EXPECT_EQ(rig.replies(id), 1U);
  }
  EXPECT_EQ(rig.payloads.size(), 0U);
  rig.check();
}

TEST_P(Scheduler, LetsNoRequestPassTheQueue) {
  scheduler_rig rig(shape(2, 1));
  rig.submit(1, {.frames = 8});
  rig.settle();
  rig.submit(2, {.frames = 7});
  rig.submit(3, {.frames = 2});  // does not fit behind 2, and no slot is free
  rig.submit(4, {.frames = 1});  // would fit behind 2, but 3 was first
  rig.settle();
  EXPECT_EQ(rig.payloads.size(), 2U);
  rig.finish(0);
  rig.finish(0);
  EXPECT_EQ(rig.replies(2), 1U);
  EXPECT_EQ(rig.replies(4), 0U);
  rig.finish(0);
  EXPECT_EQ(rig.replies(3), 1U);
  rig.check();
}

TEST_P(Scheduler, DoesNotReuseASlotThatAReplyHolds) {
  scheduler_rig rig(shape(2, 1));
  rig.replied.lend = true;
  rig.submit(1, {.frames = 8});
  rig.settle();
  rig.finish(0);
  rig.submit(2, {.frames = 8});
  rig.settle();
  rig.finish(0);
  EXPECT_EQ(rig.slots.free(), 0U);
  rig.submit(3, {.frames = 8});
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 0U);
  rig.drop_lent();
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 1U);
  rig.finish(0);
  EXPECT_EQ(rig.replies(3), 1U);
  rig.check();
}

TEST_P(Scheduler, GivesEqualPipelinesTurnsWhenSlotsAreScarce) {
  scheduler_rig rig(shape(2, 1), {plan_wish{}, plan_wish{}});
  std::uint64_t id = 0;
  for (int request = 0; request < 40; ++request) {
    rig.submit(++id, {.frames = 8, .pipeline = 0});
  }
  rig.now += microseconds{1};
  rig.submit(1000, {.frames = 8, .pipeline = 1});
  // The first pipeline always has more: one new request for each that is done.
  for (int batch = 0; batch < 60 && rig.replies(1000) == 0; ++batch) {
    rig.settle();
    rig.now += microseconds{100};
    rig.device.finish(0);
    rig.submit(++id, {.frames = 8, .pipeline = 0});
  }
  EXPECT_EQ(rig.replies(1000), 1U) << "the second pipeline starves";
}

TEST_P(Scheduler, GivesEqualPipelinesTurnsWhenStreamsAreScarce) {
  const plan_wish impatient{.max_delay = std::chrono::nanoseconds{0}};
  scheduler_rig rig(shape(16, 1), {impatient, impatient});
  std::uint64_t id = 0;
  for (int batch = 0; batch < 2; ++batch) {
    rig.submit(++id, {.pipeline = 0});
    rig.settle();
  }
  rig.now += microseconds{1};
  rig.submit(1000, {.pipeline = 1});
  // A frame of the first pipeline comes before each completion, so it always has an open batch.
  for (int batch = 0; batch < 20 && rig.replies(1000) == 0; ++batch) {
    rig.submit(++id, {.pipeline = 0});
    rig.now += microseconds{100};
    rig.finish(0);
  }
  EXPECT_EQ(rig.replies(1000), 1U) << "the second pipeline starves";
}

TEST_P(Scheduler, PrefersTheHigherPriorityButLetsTheLowerAge) {
  constexpr std::size_t low_stream = 0;
  constexpr std::size_t high_stream = 1;
  scheduler_rig rig(shape(2, 1),
                    {plan_wish{.priority = stream_priority::low}, plan_wish{.priority = stream_priority::high}});
  rig.submit(1, {.frames = 8, .pipeline = 0});
  rig.submit(2, {.frames = 8, .pipeline = 0});
  rig.settle();
  rig.submit(3, {.frames = 8, .pipeline = 0});
  rig.now += microseconds{100};
  rig.submit(4, {.frames = 8, .pipeline = 1});
  rig.finish(low_stream);
  EXPECT_EQ(rig.device.pending(high_stream), 1U) << "it came later, but with a higher priority";
  EXPECT_EQ(rig.device.pending(low_stream), 1U);
  // Request 2 keeps its slot; request 3 and the endless work of the high priority want the other.
  std::uint64_t id = 10;
  for (int batch = 0; batch < 200 && rig.device.pending(low_stream) == 1; ++batch) {
    rig.submit(++id, {.frames = 8, .pipeline = 1});
    rig.submit(++id, {.frames = 8, .pipeline = 1});
    rig.now += std::chrono::milliseconds{1};
    rig.finish(high_stream);
  }
  rig.finish(low_stream);
  rig.finish(low_stream);
  EXPECT_EQ(rig.replies(3), 1U) << "the lower priority never ages";
}

TEST_P(Scheduler, KeepsTheOpenBatchOfOneWhileAnotherWaitsForASlot) {
  scheduler_rig rig(shape(2, 1), {plan_wish{}, plan_wish{}});
  rig.submit(1, {.frames = 8, .pipeline = 0});
  rig.settle();
  rig.submit(2, {.frames = 1, .pipeline = 0});
  rig.submit(3, {.frames = 1, .pipeline = 1});  // no slot
  rig.settle();
  rig.submit(4, {.frames = 1, .pipeline = 0});  // into the open batch of the first
  rig.settle();
  EXPECT_EQ(rig.payloads.size(), 1U);
  rig.finish(0);
  rig.finish(0);
  rig.finish(0);
  EXPECT_EQ(rig.counters.requests.results, 4U);
  rig.check();
}

TEST_P(Scheduler, FindsTheOldestQueuedRequestOfAClient) {
  scheduler_rig rig(shape(1, 1));
  rig.submit(1, {.frames = 8}, "a");
  rig.submit(2, {.frames = 8}, "b");
  request& oldest = rig.submit(3, {.frames = 8}, "a");
  rig.submit(4, {.frames = 8}, "a");
  EXPECT_EQ(rig.scheduling.oldest_queued(rig.client("a"), rig.plans[0]), &oldest);
  EXPECT_EQ(rig.scheduling.oldest_queued(rig.client("c"), rig.plans[0]), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Modes, Scheduler, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

// One stream, which two pipelines share.
class ManyPipelines : public ::testing::TestWithParam<completion_mode> {};

TEST_P(ManyPipelines, LaunchesAPipelinesOnlyBatchBehindAnothersShortOnes) {
  scheduler_rig rig({.slots = 4, .streams = 1, .mode = GetParam()}, {plan_wish{}, plan_wish{}});
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
  scheduler_rig rig({.slots = 2, .streams = 1, .mode = GetParam()}, {plan_wish{}, plan_wish{}});
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

// A pipeline of low and one of high priority, each with a stream of its own.
class SchedulerPriority : public ::testing::TestWithParam<completion_mode> {
 protected:
  static constexpr std::uint32_t low = 0;
  static constexpr std::uint32_t high = 1;

  void start(std::size_t slots) {
    rig_.emplace(rig_shape{slots, 1, GetParam()}, std::vector{plan_wish{.priority = stream_priority::low},
                                                              plan_wish{.priority = stream_priority::high}});
  }
  // A batch of its own.
  request& submit(std::uint32_t pipeline) {
    request& made = rig_->submit(++ids_, {.frames = 8, .pipeline = pipeline});
    rig_->settle();
    return made;
  }
  // Both streams busy, and a full batch of each behind; the low one came that much earlier. Returns whether the high
  // one is launched first when both streams have room.
  bool high_launches_first(milliseconds earlier) {
    start(8);
    submit(low);
    submit(low);
    const request& waiting_low = submit(low);
    rig_->now += earlier;
    submit(high);
    submit(high);
    const request& waiting_high = submit(high);
    EXPECT_EQ(waiting_low.home, nullptr) << "no slot before a stream has room";
    EXPECT_EQ(waiting_high.home, nullptr);
    for (const std::uint32_t stream : {low, high, low, high}) {
      rig_->device.finish(stream);
    }
    rig_->settle();
    EXPECT_NE(waiting_low.home->launch, 0U);
    EXPECT_NE(waiting_high.home->launch, 0U);
    const bool first = waiting_high.home->launch < waiting_low.home->launch;
    rig_->end_in_peace();
    return first;
  }
  [[nodiscard]] std::uint64_t results(std::uint32_t pipeline) {
    return rig_->tracker.of_pipeline(pipeline).requests.results;
  }

  std::optional<scheduler_rig> rig_;
  std::uint64_t ids_ = 0;
};

TEST_P(SchedulerPriority, AFullBatchOfTheHigherOneLaunchesFirst) {
  EXPECT_TRUE(high_launches_first(milliseconds{0}));
  EXPECT_TRUE(high_launches_first(milliseconds{19})) << "within its head start";
}

TEST_P(SchedulerPriority, AFullBatchThatHasWaitedLongerThanTheHeadStartLaunchesFirst) {
  EXPECT_FALSE(high_launches_first(milliseconds{21}));
}

TEST_P(SchedulerPriority, BusyStreamsOfTheHigherOneKeepNoBatchFromTheLowerOnes) {
  start(8);
  submit(high);
  submit(high);
  submit(high);
  const request& made = submit(low);
  EXPECT_NE(made.home->launch, 0U);
  rig_->finish(low);
  EXPECT_EQ(results(low), 1U);
  rig_->end_in_peace();
}

TEST_P(SchedulerPriority, TheLowerOneProgressesUnderEndlessWorkOfTheHigher) {
  start(3);
  for (int more = 0; more < 6; ++more) {
    submit(high);
    submit(low);
  }
  for (int round = 0; round < 300; ++round) {
    rig_->now += milliseconds{1};
    submit(high);
    rig_->finish(high);
    if (round % 2 == 0) {
      submit(low);
    }
    rig_->finish(low);
  }
  EXPECT_GT(results(high), 100U);
  EXPECT_GT(results(low), 100U);
  rig_->end_in_peace();
}

INSTANTIATE_TEST_SUITE_P(Modes, SchedulerPriority, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

// Eight streams, batches of one frame that take as long as the test says, and one client with far more waiting than the
// device can do.
class HeavyClient : public ::testing::Test {
 protected:
  static constexpr std::uint64_t flooded = 400;

  HeavyClient() {
    for (std::uint64_t id = 1; id <= flooded; ++id) {
      rig_.submit(id, {}, "heavy");
    }
    rig_.settle();
  }
  // Another batch is done, after so long; it is the oldest one.
  void finish_one(std::chrono::nanoseconds after = 5ms) {
    rig_.now += after;
    rig_.finish(next_++ % streams);
  }
  [[nodiscard]] std::uint64_t heavy_results() const { return rig_.client("heavy").results; }

  static constexpr std::size_t streams = 8;
  mutable scheduler_rig rig_{{.slots = 32, .streams = streams}, {{.max_frames = 1}}};
  std::size_t next_ = 0;
  std::uint64_t light_ = 0;
};

TEST_F(HeavyClient, HasTheWholeDeviceWhileItIsAlone) {
  for (int batch = 0; batch < 50; ++batch) {
    finish_one();
    EXPECT_GE(rig_.streams.in_flight(), streams);
  }
}

TEST_F(HeavyClient, LeavesRoomForALightOneThatStartsAtOnce) {
  for (int batch = 0; batch < 20; ++batch) {
    finish_one();
  }
  // The first comes while the device is still full of what was there before it.
  rig_.submit(++light_, {}, "light");
  for (int batch = 0; batch < 12; ++batch) {
    finish_one();
  }
  ASSERT_EQ(rig_.replies(1, "light"), 1U);
  for (int round = 0; round < 20; ++round) {
    const request& asked = rig_.submit(++light_, {}, "light");
    rig_.settle();
    EXPECT_EQ(asked.step, request_step::executing);
    EXPECT_LE(rig_.streams.in_flight(), 1 + streams / 2);
    while (rig_.replies(light_, "light") == 0) {
      finish_one(1ms);
    }
  }
}

TEST_F(HeavyClient, HasItsTurnHoweverManyLightOnesThereAre) {
  constexpr int rounds = 100;
  const std::uint64_t before = heavy_results();
  for (int round = 0; round < rounds; ++round) {
    for (const char* const name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
      rig_.submit(static_cast<std::uint64_t>(round) + 1, {}, name);
      finish_one();
    }
  }
  EXPECT_GE(heavy_results() - before, static_cast<std::uint64_t>(rounds) * 8 / 10);
}

TEST_F(HeavyClient, HasTheWholeDeviceAgainWhenTheLightOnesHaveGone) {
  rig_.submit(++light_, {}, "light");
  for (int batch = 0; batch < 100; ++batch) {
    finish_one();
  }
  EXPECT_EQ(rig_.streams.in_flight(), streams);
}

TEST_F(HeavyClient, IsNotHeldBackWhereBatchesAreShort) {
  for (int batch = 0; batch < 50; ++batch) {
    rig_.submit(++light_, {}, "light");
    finish_one(10us);
    EXPECT_GE(rig_.streams.in_flight(), streams);
  }
}

}  // namespace
}  // namespace penstock
