#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/exec/scheduler.hpp"
#include "tests/support/scheduler_rig.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using testing::plan_wish;
using testing::rig_shape;
using testing::scheduler_rig;
using wire::status;
using ids = std::vector<std::uint64_t>;

// Each request fills a batch, and each batch runs on a stream of its own: they finish in any order that the test likes.
class SessionOrder : public ::testing::TestWithParam<completion_mode> {
 protected:
  static constexpr std::uint32_t whole_batch = 8;
  static constexpr std::uint32_t unordered = 1;

  SessionOrder() : rig_(rig_shape{8, 6, GetParam()}, {plan_wish{}, plan_wish{.ordered = false}}) {}

  void submit(std::uint64_t id, session_record* session, std::uint32_t pipeline = 0, milliseconds timeout = {}) {
    rig_.submit(id, {.frames = whole_batch, .pipeline = pipeline, .timeout = timeout, .session = session});
    rig_.settle();
  }
  void submit_three(session_record& session) {
    for (const std::uint64_t id : {1U, 2U, 3U}) {
      submit(id, &session);
    }
  }
  // Requests in the order of their replies so far.
  [[nodiscard]] ids replied() const {
    ids made;
    for (const auto& [client, id] : rig_.replied.order) {
      made.push_back(id);
    }
    return made;
  }
  void cancel(std::uint64_t id) {
    request* const found = rig_.client().in_flight.find(id);
    ASSERT_NE(found, nullptr);
    rig_.scheduling.end(*found, status::cancelled, "cancelled by the client");
    rig_.settle();
  }

  scheduler_rig rig_;
};

TEST_P(SessionOrder, ResultsComeInItWhateverFinishesFirst) {
  for (const std::vector<std::size_t>& order :
       {std::vector<std::size_t>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    scheduler_rig rig(rig_shape{4, 3, GetParam()});
    session_record& session = rig.session("a");
    for (const std::uint64_t id : {1U, 2U, 3U}) {
      rig.submit(id, {.frames = whole_batch, .session = &session});
      rig.settle();
    }
    for (const std::size_t stream : order) {
      rig.finish(stream);
    }
    std::uint64_t expected = 0;
    for (const auto& [client, id] : rig.replied.order) {
      EXPECT_EQ(id, ++expected);
    }
    EXPECT_EQ(expected, 3U);
    rig.end_in_peace();
  }
}

TEST_P(SessionOrder, AResultBeforeItsTurnIsHeldWithItsSlot) {
  submit_three(rig_.session("a"));
  rig_.finish(2);
  rig_.finish(1);
  EXPECT_EQ(replied(), ids{});
  EXPECT_EQ(rig_.slots.free(), 5U) << "two hold results, one is with the device";
  EXPECT_EQ(rig_.client().requests, 3U) << "what is held has no reply yet";
  EXPECT_EQ(rig_.client().in_flight.find(3)->step, request_step::held);
  rig_.finish(0);
  EXPECT_EQ(replied(), (ids{1, 2, 3}));
  EXPECT_EQ(rig_.slots.free(), 8U);
  rig_.end_in_peace();
}

TEST_P(SessionOrder, WhatIsHeldIsNotWrittenOver) {
  session_record& session = rig_.session("a");
  submit(1, &session);
  for (std::uint64_t id = 2; id <= 6; ++id) {
    submit(id, &session);
    rig_.finish(static_cast<std::size_t>(id - 1));
  }
  // The slots that are left go round under the others' work.
  for (std::uint64_t id = 100; id < 120; ++id) {
    submit(id, nullptr);
    for (std::size_t stream = 1; stream < 6; ++stream) {
      rig_.finish(stream);
    }
    EXPECT_EQ(rig_.replies(id), 1U);
  }
  rig_.finish(0);
  EXPECT_EQ(rig_.counters.requests.results, 26U);
  rig_.end_in_peace();  // looks at every result
}

TEST_P(SessionOrder, DelaysNoOthers) {
  submit(1, &rig_.session("a"));
  submit(2, &rig_.session("a"));
  submit(3, &rig_.session("b"));
  submit(4, nullptr);
  submit(5, &rig_.session("b"));
  for (const std::size_t stream : {1U, 2U, 3U, 4U}) {
    rig_.finish(stream);
  }
  EXPECT_EQ(replied(), (ids{3, 4, 5}));
  rig_.finish(0);
  EXPECT_EQ(replied(), (ids{3, 4, 5, 1, 2}));
  rig_.end_in_peace();
}

TEST_P(SessionOrder, IsKeptWithinABatchAndAcrossBatches) {
  session_record& a = rig_.session("a");
  session_record& b = rig_.session("b");
  submit(1, &a);  // alone on stream 0; the next five batches make every stream busy
  for (std::uint64_t id = 11; id <= 15; ++id) {
    submit(id, nullptr);
  }
  for (const auto& [id, session] : {std::pair{2U, &a}, {3U, &b}, {4U, &a}, {5U, &b}}) {
    rig_.submit(id, {.frames = 1, .session = session});  // one batch, for the first stream that idles
  }
  rig_.settle();
  for (std::size_t stream = 1; stream < 6; ++stream) {
    rig_.finish(stream);
    rig_.finish(stream);
  }
  EXPECT_EQ(replied(), (ids{11, 3, 5, 12, 13, 14, 15})) << "2 and 4 wait for 1 alone";
  rig_.finish(0);
  EXPECT_EQ(replied(), (ids{11, 3, 5, 12, 13, 14, 15, 1, 2, 4}));
  rig_.end_in_peace();
}

TEST_P(SessionOrder, IsThatOfFinishingWhereThePipelineSaysSo) {
  session_record& session = rig_.session("a", "client", unordered);
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    submit(id, &session, unordered);
  }
  rig_.finish(2);
  EXPECT_EQ(replied(), (ids{3}));
  rig_.finish(0);
  rig_.finish(1);
  EXPECT_EQ(replied(), (ids{3, 1, 2}));
  rig_.end_in_peace();
}

TEST_P(SessionOrder, TheFirstOneCancelledLetsThoseHeldFollowAtOnce) {
  submit_three(rig_.session("a"));
  rig_.finish(1);
  rig_.finish(2);
  cancel(1);
  EXPECT_EQ(replied(), (ids{1, 2, 3}));
  EXPECT_EQ(rig_.reply(1).code, status::cancelled);
  EXPECT_EQ(rig_.reply(3).code, status::ok);
  EXPECT_EQ(rig_.slots.free(), 7U) << "the device still works on the first";
  rig_.end_in_peace();
}

TEST_P(SessionOrder, AMiddleOneCancelledLeavesNoGap) {
  submit_three(rig_.session("a"));
  rig_.finish(2);
  cancel(2);
  EXPECT_EQ(replied(), (ids{2})) << "it is told when it happens";
  rig_.finish(0);
  EXPECT_EQ(replied(), (ids{2, 1, 3}));
  rig_.end_in_peace();
}

TEST_P(SessionOrder, AHeldOneCancelledGivesItsSlotBack) {
  submit_three(rig_.session("a"));
  rig_.finish(1);
  rig_.finish(2);
  cancel(2);
  EXPECT_EQ(rig_.reply(2).why.step, "held");
  EXPECT_EQ(rig_.slots.free(), 6U);
  EXPECT_EQ(replied(), (ids{2}));
  rig_.finish(0);
  EXPECT_EQ(replied(), (ids{2, 1, 3}));
  rig_.end_in_peace();
}

TEST_P(SessionOrder, TheLastOneCancelledLeavesTheOthersInOrder) {
  session_record& session = rig_.session("a");
  submit_three(session);
  cancel(3);
  submit(4, &session);
  rig_.finish(3);
  rig_.finish(1);
  rig_.finish(0);
  EXPECT_EQ(replied(), (ids{3, 1, 2, 4}));
  rig_.end_in_peace();
}

TEST_P(SessionOrder, ExpiresOnTimeAtEveryStepAndLetsTheOthersFollow) {
  session_record& session = rig_.session("a");
  submit(1, &session, 0, milliseconds{10});
  submit(2, &session, 0, milliseconds{20});
  submit(3, &session, 0, milliseconds{15});
  submit(4, &session);
  rig_.finish(1);
  rig_.finish(2);
  rig_.finish(3);
  rig_.now += milliseconds{10};
  rig_.expire();
  EXPECT_EQ(replied(), (ids{1, 2, 3, 4})) << "the first expired, the others were there";
  EXPECT_EQ(rig_.reply(1).code, status::expired);
  EXPECT_EQ(rig_.reply(2).code, status::ok);
  rig_.end_in_peace();
}

TEST_P(SessionOrder, AHeldOneExpiresWhileItWaits) {
  session_record& session = rig_.session("a");
  submit(1, &session);
  submit(2, &session, 0, milliseconds{10});
  submit(3, &session);
  rig_.finish(1);
  rig_.finish(2);
  rig_.now += milliseconds{10};
  rig_.expire();
  EXPECT_EQ(replied(), (ids{2}));
  EXPECT_EQ(rig_.reply(2).code, status::expired);
  EXPECT_EQ(rig_.reply(2).why.step, "held");
  rig_.finish(0);
  EXPECT_EQ(replied(), (ids{2, 1, 3}));
  rig_.end_in_peace();
}

TEST_P(SessionOrder, EndAllAnswersWhatIsHeldOnce) {
  submit_three(rig_.session("a"));
  submit(4, &rig_.session("b"));
  rig_.submit(5, {.frames = 1, .session = &rig_.session("a")});
  rig_.finish(1);
  rig_.finish(2);
  rig_.scheduling.end_all(status::shutdown, {"stopped", "executing", "", ""});
  EXPECT_EQ(rig_.counters.requests.in_flight, 0U);
  EXPECT_EQ(rig_.replied.count, 5U);
  for (const std::uint64_t id : {1U, 4U, 5U}) {
    EXPECT_EQ(rig_.reply(id).code, status::shutdown);
  }
  rig_.end_in_peace();
  EXPECT_EQ(rig_.replied.count, 5U);
}

TEST_P(SessionOrder, ADrainFinishesWhatIsHeld) {
  session_record& session = rig_.session("a");
  submit_three(session);
  rig_.finish(1);
  rig_.scheduling.drain();
  rig_.finish(2);
  EXPECT_EQ(replied(), ids{});
  EXPECT_FALSE(rig_.scheduling.idle());
  rig_.finish(0);
  EXPECT_EQ(replied(), (ids{1, 2, 3}));
  EXPECT_EQ(rig_.counters.requests.results, 3U);
  rig_.end_in_peace();
}

TEST_P(SessionOrder, ALostDeviceStillAnswersEachOnce) {
  submit_three(rig_.session("a"));
  rig_.finish(1);
  rig_.device.finish(0, {"cudaErrorIllegalAddress"});
  rig_.scheduling.turn(rig_.now);
  ASSERT_TRUE(rig_.scheduling.lost());
  EXPECT_EQ(rig_.reply(1).code, status::device_failed);
  EXPECT_EQ(rig_.reply(2).code, status::ok) << "its result was there";
  rig_.scheduling.end_all(status::device_failed, {"lost", "executing", "", "cudaErrorIllegalAddress"});
  EXPECT_EQ(rig_.reply(3).code, status::device_failed);
  rig_.end_in_peace();
}

INSTANTIATE_TEST_SUITE_P(Modes, SessionOrder, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock
