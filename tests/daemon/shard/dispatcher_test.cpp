#include "daemon/shard/dispatcher.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using std::chrono::microseconds;
using testing::dispatch_rig;
using testing::plan_wish;
using testing::rig_shape;

class Dispatcher : public ::testing::TestWithParam<completion_mode> {
 protected:
  [[nodiscard]] rig_shape shape(std::size_t slots, int streams) const { return {slots, streams, GetParam(), 1024}; }
};

TEST_P(Dispatcher, AnswersWithTheResultOfThePayload) {
  dispatch_rig rig(shape(4, 2));
  rig.submit(1, {.frames = 3});
  rig.settle();
  EXPECT_EQ(rig.replies(1), 0U);
  rig.finish(0);
  EXPECT_EQ(rig.reply(1).next, testing::next_of(rig.payload(1)));
  EXPECT_EQ(rig.reply(1).sums, testing::sums_of(rig.payload(1), 3));
  rig.check();
  EXPECT_TRUE(rig.path.idle());
  EXPECT_EQ(rig.slots.free(), 4U);
}

TEST_P(Dispatcher, TakesOneFrameAtOnceWhenAStreamIdles) {
  dispatch_rig rig(shape(4, 2));
  rig.submit(1);
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 1U);
  EXPECT_EQ(rig.closed(close_reason::idle), 1U);
}

// Each in the order in which it sent, and the clients in the order in which their first ones came.
TEST_P(Dispatcher, AnswersTheClientsOfABatchOneBehindTheOther) {
  dispatch_rig rig(shape(4, 1));
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
  EXPECT_EQ(rig.book.of_pipeline(0).batches, 2U);
  EXPECT_EQ(rig.replied.order, (std::vector<testing::recorded_replies::key>{
                                   {"b", 2}, {"b", 1}, {"b", 3}, {"a", 2}, {"a", 9}, {"c", 2}, {"c", 1}}));
  rig.check();
}

TEST_P(Dispatcher, BatchesWhatComesWhileEveryStreamIsBusy) {
  dispatch_rig rig(shape(4, 1));
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
  EXPECT_EQ(rig.book.of_pipeline(0).batches, 2U);
  EXPECT_EQ(rig.book.of_pipeline(0).batched_frames, 5U);
  EXPECT_EQ(rig.counters.requests.results, 5U);
  rig.check();
}

TEST_P(Dispatcher, ClosesAFullBatchBehindABusyStream) {
  dispatch_rig rig(shape(4, 1));
  rig.submit(1);
  rig.settle();
  rig.submit(2, {.frames = 8});
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 2U);
  EXPECT_EQ(rig.closed(close_reason::full), 1U);
}

TEST_P(Dispatcher, ClosesWhenTheDelayRunsOutAndSaysWhen) {
  dispatch_rig rig(shape(4, 1));
  rig.submit(1);
  rig.settle();
  rig.submit(2);
  rig.settle();
  EXPECT_EQ(rig.path.next_decision(), rig.now + microseconds{500});
  rig.now += microseconds{499};
  EXPECT_FALSE(rig.path.turn(rig.now));
  rig.now += microseconds{1};
  rig.settle();
  EXPECT_EQ(rig.device.pending(), 2U);
  EXPECT_EQ(rig.closed(close_reason::delay), 1U);
  EXPECT_EQ(rig.path.next_decision(), never);
}

TEST_P(Dispatcher, SaysNeverWhileThereIsNoRoom) {
  dispatch_rig rig(shape(4, 1));
  for (std::uint64_t id = 1; id <= 2; ++id) {
    rig.submit(id, {.frames = 8});
    rig.settle();
  }
  rig.submit(3);
  rig.settle();
  EXPECT_EQ(rig.path.next_decision(), never) << "a completion is what it waits for";
}

TEST_P(Dispatcher, ClosesForARequestThatDoesNotFit) {
  dispatch_rig rig(shape(4, 1));
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

TEST_P(Dispatcher, ClosesForAnotherExtent) {
  dispatch_rig rig(shape(4, 1), {plan_wish{.variable = true}});
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
  EXPECT_EQ(rig.book.of_pipeline(0).batches, 3U);
  EXPECT_EQ(rig.counters.requests.results, 4U);
  rig.check();
}

TEST_P(Dispatcher, QueuesWhenNoSlotIsFreeAndFeedsInOrder) {
  dispatch_rig rig(shape(2, 1));
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

TEST_P(Dispatcher, LetsNoRequestPassTheQueue) {
  dispatch_rig rig(shape(2, 1));
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

TEST_P(Dispatcher, DoesNotReuseASlotThatAReplyHolds) {
  dispatch_rig rig(shape(2, 1));
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

TEST_P(Dispatcher, GivesEqualPipelinesTurnsWhenSlotsAreScarce) {
  dispatch_rig rig(shape(2, 1), {plan_wish{}, plan_wish{}});
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

TEST_P(Dispatcher, GivesEqualPipelinesTurnsWhenStreamsAreScarce) {
  const plan_wish impatient{.max_delay = std::chrono::nanoseconds{0}};
  dispatch_rig rig(shape(16, 1), {impatient, impatient});
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

TEST_P(Dispatcher, PrefersTheHigherPriorityButLetsTheLowerAge) {
  constexpr std::size_t low_stream = 0;
  constexpr std::size_t high_stream = 1;
  dispatch_rig rig(shape(2, 1),
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

TEST_P(Dispatcher, KeepsTheOpenBatchOfOneWhileAnotherWaitsForASlot) {
  dispatch_rig rig(shape(2, 1), {plan_wish{}, plan_wish{}});
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

TEST_P(Dispatcher, FindsTheOldestQueuedRequestOfAClient) {
  dispatch_rig rig(shape(1, 1));
  rig.submit(1, {.frames = 8}, "a");
  rig.submit(2, {.frames = 8}, "b");
  request& oldest = rig.submit(3, {.frames = 8}, "a");
  rig.submit(4, {.frames = 8}, "a");
  EXPECT_EQ(rig.path.oldest_queued(rig.client("a"), rig.plans[0]), &oldest);
  EXPECT_EQ(rig.path.oldest_queued(rig.client("c"), rig.plans[0]), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Modes, Dispatcher, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock
