#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/ingress/admission.hpp"
#include "daemon/shard/dispatcher.hpp"
#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using testing::dispatch_rig;
using testing::plan_wish;
using testing::rig_shape;
using wire::status;

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
    rig_.path.end(*rig_.client().in_flight.find(id), status::cancelled, "cancelled by the client");
  }
  void expect_state_saw_all() {
    rig_.end_in_peace();
    EXPECT_EQ(rig_.book.of_pipeline(0).batched_frames, rig_.counters.requests.accepted) << "each frame once";
    EXPECT_EQ(rig_.session("a").references, 0U);
  }

  dispatch_rig rig_;
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
  dispatch_rig rig(rig_shape{2, 1, GetParam()}, {plan_wish{.max_frames = 1}});
  for (const std::uint64_t id : {1U, 2U, 3U}) {
    rig.submit(id, {.session = &rig.session("a")});
    rig.settle();
  }
  rig.path.end(*rig.client().in_flight.find(3), status::cancelled, "");
  EXPECT_EQ(rig.payloads.size(), 0U);
  EXPECT_EQ(rig.client().references, 2U);
  EXPECT_EQ(rig.client().abandoned_requests, 0U);
  rig.end_in_peace();
  EXPECT_EQ(rig.book.of_pipeline(0).batched_frames, 2U);
}

TEST_P(AbandonedRequest, IsGoneWithADrain) {
  cancel(3);
  rig_.path.drain();
  EXPECT_EQ(rig_.reply(3).code, status::cancelled);
  EXPECT_EQ(rig_.reply(4).code, status::shutdown);
  EXPECT_EQ(rig_.client().abandoned_requests, 0U);
  rig_.end_in_peace();
  EXPECT_EQ(rig_.replied.count, 4U);
}

TEST_P(AbandonedRequest, IsGoneWithEndAll) {
  cancel(3);
  rig_.path.end_all(status::device_failed, {"lost", "executing", "", ""});
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
  dispatch_rig rig(rig_shape{4, 2, GetParam(), 1024}, {plan_wish{.max_frames = 1, .keeps_state = true}});
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
