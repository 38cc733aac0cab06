#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/shard/shard_rig.hpp"

namespace penstock {
namespace {

using testing::expect_error;
using testing::guest;
using testing::plan_wish;
using testing::raw_message;
using testing::raw_peer;
using testing::shard_rig;
using testing::shard_wish;
using testing::submit_draft;
using testing::sums_of;
using wire::message_type;
using wire::status;

/// A client of a daemon with a pipeline that keeps state (0) and one that does not (1).
class session_messages : public ::testing::Test {
 protected:
  void start(shard_wish wish = {}) {
    wish.plans = {{.max_frames = 4, .keeps_state = true}, {}};
    rig_.emplace(wish);
    client_.emplace(*rig_);
  }
  guest& client() { return *client_; }
  [[nodiscard]] std::uint32_t open(const std::string& name, std::uint32_t pipeline = 0) {
    const raw_message got = client().open(name, pipeline);
    EXPECT_EQ(got.header.type, wire::message_type::session_opened);
    return got.header.session;
  }
  // A RESULT of the session; the running total after its last frame.
  static std::int32_t total_of(const raw_message& got, std::uint64_t id, std::uint32_t session,
                               std::uint64_t sequence) {
    EXPECT_EQ(got.header.type, wire::message_type::result);
    EXPECT_EQ(got.header.request_id, id);
    EXPECT_EQ(got.header.session, session);
    EXPECT_EQ(got.header.sequence, sequence);
    std::int32_t total = -1;
    if (got.parts.size() == 4 && got.parts[3].size() >= sizeof total) {
      std::memcpy(&total, got.parts[3].data() + got.parts[3].size() - sizeof total, sizeof total);
    }
    return total;
  }
  static std::int32_t sum_of(const std::string& payload) { return sums_of(payload, 1).front(); }
  void expect_balanced(std::uint64_t accepted) {
    const nlohmann::json status = client().status();
    EXPECT_TRUE(status.at("balanced").get<bool>());
    EXPECT_EQ(status.at("requests").at("accepted"), accepted);
    EXPECT_EQ(status.at("requests").at("in_flight"), 0);
  }
  [[nodiscard]] int refused(const char* code) {
    const nlohmann::json status = client().status();
    return status.at("refused").value(code, 0);
  }

  std::optional<shard_rig> rig_;
  std::optional<guest> client_;
};

const plan_wish keeps_state{.max_frames = 4, .keeps_state = true};

class SessionMessages : public session_messages {};

TEST_F(SessionMessages, WelcomeSaysWhichPipelinesKeepState) {
  start();
  ASSERT_EQ(client().welcome.pipelines.size(), 2U);
  EXPECT_TRUE(client().welcome.pipelines[0].keeps_state);
  EXPECT_FALSE(client().welcome.pipelines[1].keeps_state);
  EXPECT_TRUE(client().welcome.pipelines[0].ordered);
  EXPECT_EQ(client().welcome.pipelines[0].period, 1U);
}

TEST_F(SessionMessages, OpensASessionAndCountsItsFrames) {
  start();
  const raw_message opened = client().open("mine");
  EXPECT_EQ(opened.header.type, message_type::session_opened);
  EXPECT_EQ(opened.header.request_id, 5000U);
  EXPECT_NE(opened.header.session, 0U);
  EXPECT_EQ(opened.json().at("session"), opened.header.session);
  EXPECT_EQ(opened.json().at("next_sequence"), 0);
  const std::uint32_t session = opened.header.session;
  std::int32_t total = sum_of(client().submit_to(session, 0, 1, 3));
  EXPECT_EQ(total_of(client().next(), 1, session, 0), total);
  total += sum_of(client().submit_to(session, 3, 2, 1));
  EXPECT_EQ(total_of(client().next(), 2, session, 3), total);
  expect_balanced(2);
}

TEST_F(SessionMessages, FindsTheSameNameAgainWhereItStands) {
  start();
  const std::uint32_t session = open("mine");
  client().submit_to(session, 0, 1, 2);
  (void)client().next();
  const raw_message again = client().open("mine");
  EXPECT_EQ(again.header.session, session);
  EXPECT_EQ(again.json().at("next_sequence"), 2);
  EXPECT_NE(open("other"), session);
  EXPECT_NE(open("mine", 1), session) << "of another pipeline";
  EXPECT_NE(open(""), open(""));
}

TEST_F(SessionMessages, RefusesAnOpenThatItCannotMeet) {
  start({.max_sessions = 2});
  client().send_control(message_type::open_session, 7, "{");
  expect_error(client().next(), status::malformed, 7);
  client().send_control(message_type::open_session, 8, R"({"pipeline": 0, "name": ")" + std::string(65, 'n') + "\"}");
  expect_error(client().next(), status::malformed, 8);
  expect_error(client().open("a", 2), status::unknown_pipeline, 5000);
  (void)open("a");
  (void)open("b", 1);
  expect_error(client().open("c"), status::too_many_sessions, 5000);
  EXPECT_EQ(open("a"), open("a")) << "those that are there it finds";
  EXPECT_EQ(refused("TOO_MANY_SESSIONS"), 1);
}

TEST_F(SessionMessages, RequiresHelloOfWhoOpens) {
  start();
  raw_peer stranger(rig_->endpoint());
  stranger.send_control(message_type::open_session, 3, wire::encode(wire::open_session{0, "a"}));
  expect_error(stranger.receive().value(), status::hello_required, 3);
}

TEST_F(SessionMessages, RequiresASessionWhereStateIsKept) {
  start();
  client().submit(1);
  expect_error(client().next(), status::session_required, 1);
  client().submit(2, 1, 1);
  EXPECT_EQ(client().next().header.type, message_type::result);
  expect_balanced(1);
}

TEST_F(SessionMessages, TakesSessionsWhereNoStateIsKept) {
  start();
  const std::uint32_t session = open("order", 1);
  client().submit_to(session, 0, 1, 1, 1);
  EXPECT_EQ(client().next().header.type, message_type::result);
  client().submit_to(session, 0, 2, 1, 1);
  expect_error(client().next(), status::reply_gone, 2);
}

TEST_F(SessionMessages, ASessionThatNeverWasIsLost) {
  start();
  const std::uint32_t session = open("mine");
  for (const std::uint32_t unknown : {session + 1, session + 8, 0xFFFFFFFFU}) {
    client().submit_to(unknown, 0, 1);
    const raw_message got = client().next();
    expect_error(got, status::session_lost, 1);
    EXPECT_EQ(got.header.session, unknown);
  }
  expect_balanced(0);
}

TEST_F(SessionMessages, AnotherClientsSessionIsLost) {
  start();
  guest other(*rig_);
  const std::uint32_t session = open("mine");
  other.submit_to(session, 0, 1);
  expect_error(other.next(), status::session_lost, 1);
  const raw_message of_the_same_name = other.open("mine");
  EXPECT_NE(of_the_same_name.header.session, session);
  other.close(session);
  EXPECT_TRUE(other.has_nothing());
  client().submit_to(session, 0, 1);
  EXPECT_EQ(client().next().header.type, message_type::result) << "nobody else can close it";
}

TEST_F(SessionMessages, AClosedSessionFinishesWhatItHasAndIsLostThen) {
  start({.held = true});
  const std::uint32_t session = open("mine");
  const std::int32_t total = sum_of(client().submit_to(session, 0, 1));
  ASSERT_TRUE(rig_->device.wait_for_pending(2));
  client().close(session);
  client().submit_to(session, 1, 2);
  expect_error(client().next(), status::session_lost, 2);
  EXPECT_NE(open("mine"), session) << "the name opens another";
  rig_->device.let_run();
  EXPECT_EQ(total_of(client().next(), 1, session, 0), total);
  EXPECT_TRUE(client().has_nothing()) << "CLOSE is not answered";
  expect_balanced(1);
}

TEST_F(SessionMessages, AGapIsToldWithWhatIsExpectedAndTakesNothing) {
  start();
  const std::uint32_t session = open("mine");
  std::int32_t total = sum_of(client().submit_to(session, 0, 1, 2));
  (void)client().next();
  for (const std::uint64_t sequence : {3U, 100U}) {
    client().submit_to(session, sequence, 2);
    const raw_message got = client().next();
    expect_error(got, status::sequence_gap, 2);
    EXPECT_EQ(got.header.sequence, 2U);
    EXPECT_EQ(got.header.session, session);
  }
  total += sum_of(client().submit_to(session, 2, 2));
  EXPECT_EQ(total_of(client().next(), 2, session, 2), total);
  expect_balanced(2);
  EXPECT_EQ(refused("SEQUENCE_GAP"), 2);
}

TEST_F(SessionMessages, WhatFollowsARefusedRequestIsAGap) {
  start({.credit_requests = 1, .held = true});
  const std::uint32_t session = open("mine");
  client().submit_to(session, 0, 1);
  client().submit_to(session, 1, 2);
  expect_error(client().next(), status::no_credit, 2);
  rig_->device.let_run();
  EXPECT_EQ(client().next().header.type, message_type::result);
  client().submit_to(session, 2, 3);
  const raw_message got = client().next();
  expect_error(got, status::sequence_gap, 3);
  EXPECT_EQ(got.header.sequence, 1U);
}

TEST_F(SessionMessages, IgnoresARepeatInFlight) {
  start({.held = true});
  const std::uint32_t session = open("mine");
  const std::int32_t total = sum_of(client().submit_to(session, 0, 1));
  ASSERT_TRUE(rig_->device.wait_for_pending(2));
  client().submit_to(session, 0, 1);
  EXPECT_TRUE(client().has_nothing());
  rig_->device.let_run();
  EXPECT_EQ(total_of(client().next(), 1, session, 0), total);
  EXPECT_TRUE(client().has_nothing());
  expect_balanced(1);
}

TEST_F(SessionMessages, AnswersAFinishedRepeatFromTheCacheAndRunsItNeverTwice) {
  start();
  const std::uint32_t session = open("mine");
  std::int32_t total = sum_of(client().submit_to(session, 0, 1));
  EXPECT_EQ(total_of(client().next(), 1, session, 0), total);
  const std::size_t marks = rig_->device.marks();
  client().submit_to(session, 0, 1);
  EXPECT_EQ(total_of(client().next(), 1, session, 0), total);
  EXPECT_EQ(rig_->device.marks(), marks);
  total += sum_of(client().submit_to(session, 1, 2));
  EXPECT_EQ(total_of(client().next(), 2, session, 1), total);
  expect_balanced(2);
}

TEST_F(SessionMessages, AnswersARepeatAfterTheSessionWasClosed) {
  start();
  const std::uint32_t session = open("mine");
  const std::int32_t total = sum_of(client().submit_to(session, 0, 1));
  EXPECT_EQ(total_of(client().next(), 1, session, 0), total);
  client().close(session);
  client().submit_to(session, 0, 1);
  EXPECT_EQ(total_of(client().next(), 1, session, 0), total);
}

TEST_F(SessionMessages, ARepeatWhoseReplyIsNotKeptIsGoneAndNotRunAgain) {
  start({.reply_cache_bytes = 0});
  const std::uint32_t session = open("mine");
  client().submit_to(session, 0, 1);
  EXPECT_EQ(client().next().header.type, message_type::result);
  const std::size_t marks = rig_->device.marks();
  client().submit_to(session, 0, 1);
  const raw_message got = client().next();
  expect_error(got, status::reply_gone, 1);
  EXPECT_EQ(got.header.sequence, 0U);
  EXPECT_EQ(rig_->device.marks(), marks);
  expect_balanced(1);
}

TEST_F(SessionMessages, ACancelledRequestOfASessionStillCounts) {
  start({.streams = 1, .slots = 1, .held = true});
  const std::uint32_t session = open("mine");
  std::int32_t total = sum_of(client().submit_to(session, 0, 1));
  ASSERT_TRUE(rig_->device.wait_for_pending(2));
  total += sum_of(client().submit_to(session, 1, 2));  // queued: there is no second slot
  client().send_control(message_type::cancel, 2);
  const raw_message got = client().next();
  expect_error(got, status::cancelled, 2);
  EXPECT_EQ(got.header.session, session);
  EXPECT_EQ(got.header.sequence, 1U);
  total += sum_of(client().submit_to(session, 2, 3));
  rig_->device.let_run();
  (void)client().next();
  EXPECT_EQ(total_of(client().next(), 3, session, 2), total);
  expect_balanced(3);
}

TEST_F(SessionMessages, NoCreditBeyondAsManyAbandonedRequestsAsCredits) {
  start({.streams = 1, .slots = 1, .credit_requests = 4, .held = true});
  const std::uint32_t session = open("mine");
  client().submit_to(session, 0, 1);
  ASSERT_TRUE(rig_->device.wait_for_pending(2));
  for (std::uint64_t id = 2; id <= 5; ++id) {
    client().submit_to(session, id - 1, id);
    client().send_control(message_type::cancel, id);
    expect_error(client().next(), status::cancelled, id);
  }
  client().submit_to(session, 5, 6);
  expect_error(client().next(), status::no_credit, 6);
  rig_->device.let_run();
  EXPECT_EQ(client().next().header.request_id, 1U);
  while (client().status().at("slots").at("free") != 1) {
  }
  client().submit_to(session, 5, 6);
  EXPECT_EQ(client().next().header.type, message_type::result);
  expect_balanced(6);
}

TEST_F(SessionMessages, RefusesNewSessionsWhileItStops) {
  start({.held = true});
  const std::uint32_t session = open("mine");
  client().submit_to(session, 0, 1);
  ASSERT_TRUE(rig_->device.wait_for_pending(2));
  rig_->stop();
  while (client().status().at("state") != "draining") {
  }
  expect_error(client().open("late"), status::shutdown, 5000);
  client().submit_to(session, 1, 2);
  expect_error(client().next(), status::shutdown, 2);
  rig_->device.let_run();
  EXPECT_EQ(client().next().header.type, message_type::result);
}

}  // namespace
}  // namespace penstock
