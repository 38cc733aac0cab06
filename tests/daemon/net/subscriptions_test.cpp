#include "daemon/net/subscriptions.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/net/reply_sender_rig.hpp"

namespace penstock {
namespace {

using testing::reply_sender_rig;
using wire::message_type;

TEST(SubscriptionPattern, StarStandsForAnyLettersAndQuestionMarkForOne) {
  for (const char* const pattern : {"*", "antenna 1", "ant*", "*1", "a*n*1", "antenna ?", "?ntenn? ?", "**a**1**"}) {
    EXPECT_TRUE(matches(pattern, "antenna 1")) << pattern;
  }
  for (const char* const pattern : {"", "?", "antenna", "antenna 1?", "*2", "b*", "a*m*1", "antenna 1*x"}) {
    EXPECT_FALSE(matches(pattern, "antenna 1")) << pattern;
  }
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("***", ""));
  EXPECT_FALSE(matches("?", ""));
}

TEST(SubscriptionPattern, TakesNoLongerThanTextTimesPattern) {
  std::string pattern;
  for (int stars = 0; stars < 32; ++stars) {
    pattern += "*a";
  }
  EXPECT_FALSE(matches(pattern + "b", std::string(64, 'a')));
}

/// Outlives the socket, which may hold messages that it counts.
struct queued_memory {
  memory_budget queued{SIZE_MAX};
};

/// Subscribers over a real ROUTER socket, which read when they are told to.
class subscriptions_rig : private queued_memory, public reply_sender_rig {
 public:
  subscriptions_rig() {
    for (const plan& each : plans) {
      served.in_order.push_back(&each);
      served.put(each);
    }
    out.publish_to(all);
  }

  [[nodiscard]] verdict subscribe(client_record& client, std::uint64_t id, std::uint32_t pipeline,
                                  std::uint64_t queue_bytes = 0, std::vector<std::string> outputs = {}) {
    return all.subscribe(
        client, id,
        {.pipelines = {plans[pipeline].declaration.name}, .outputs = std::move(outputs), .queue_bytes = queue_bytes},
        granted);
  }

  session_table sessions{8, std::chrono::hours{1}, 1};
  served_pipelines served;
  subscriptions all{{router, clients, sessions, served, counters, memory}, queued, 4};
  wire::subscribed granted;
};

TEST(Subscriptions, ResultGoesToItsClientAndToEachSubscriber) {
  subscriptions_rig rig;
  client_record& owner = rig.connect("owner");
  for (const std::string name : {"one", "two"}) {
    ASSERT_TRUE(rig.subscribe(rig.connect(name), 60, 1).admitted());
  }
  rig.result(owner, 7, 1, 'y');
  EXPECT_EQ(rig.receive("owner").header.type, message_type::result);
  for (const std::string name : {"one", "two"}) {
    const auto source = rig.receive(name);
    ASSERT_EQ(source.header.type, message_type::publisher);
    EXPECT_EQ(source.header.session, 1U);
    const auto got = rig.receive(name);
    ASSERT_EQ(got.header.type, message_type::published);
    EXPECT_EQ(got.header.request_id, 60U);
    EXPECT_EQ(got.header.sequence, 0U);
    EXPECT_EQ(got.parts.at(0), std::string(reply_sender_rig::large_frame, 'y'));
  }
  EXPECT_EQ(rig.counters.results_published, 2U);
}

TEST(Subscriptions, ResultOfAnotherPipelineDoesNotCount) {
  subscriptions_rig rig;
  client_record& owner = rig.connect("owner");
  client_record& listener = rig.connect("listener");
  ASSERT_TRUE(rig.subscribe(listener, 60, 1).admitted());
  rig.result(owner, 7, 0);
  EXPECT_TRUE(rig.has_nothing(listener));
}

TEST(Subscriptions, ResultThatIsWrittenOverItsPayloadIsPublishedToo) {
  subscriptions_rig rig;
  client_record& owner = rig.connect("owner");
  ASSERT_TRUE(rig.subscribe(rig.connect("listener"), 60, 2).admitted());
  request done = rig.made(owner, 7, 2);
  done.payload = payload_mode::rewritten;
  const std::string bytes = testing::payload_of(reply_sender_rig::large_frame, 3);
  rig.received.keep(done.index, zmq::message_t(bytes.data(), bytes.size()));
  slot* const from = rig.slots.claim();
  rig.out.result(done, *from);
  slot_ring::drop(*from);
  EXPECT_EQ(rig.receive("owner").parts.at(0), bytes);
  EXPECT_EQ(rig.receive("listener").header.type, message_type::publisher);
  EXPECT_EQ(rig.receive("listener").parts.at(0), bytes);
}

TEST(Subscriptions, RequestGoesToThoseThatAskForRequestsAlone) {
  subscriptions_rig rig;
  client_record& owner = rig.connect("owner");
  client_record& results = rig.connect("results");
  client_record& requests = rig.connect("requests");
  ASSERT_TRUE(rig.subscribe(results, 60, 1).admitted());
  EXPECT_FALSE(rig.all.wants_requests());
  const std::string name = rig.plans[1].declaration.name;
  EXPECT_EQ(
      rig.all.subscribe(requests, 61, {.pipelines = {name}, .outputs = {"y"}, .requests = true}, rig.granted).code,
      wire::status::malformed);
  ASSERT_TRUE(rig.all.subscribe(requests, 61, {.pipelines = {name}, .requests = true}, rig.granted).admitted());
  EXPECT_TRUE(rig.all.wants_requests());
  request accepted = rig.made(owner, 7, 1);
  accepted.account = wire::sample_account{.index = 96, .flags = wire::sample_flag::index_known};
  const std::string sent = testing::payload_of(reply_sender_rig::large_frame, 5);
  rig.all.publish_request(accepted, std::as_bytes(std::span(sent)));
  rig.result(owner, 7, 1);
  const auto source = rig.receive("requests");
  EXPECT_NE(source.parts.at(0).find(R"("outputs":["input"])"), std::string::npos) << source.parts.at(0);
  const auto got = rig.receive("requests");
  EXPECT_EQ(got.header.sequence, 0U);
  EXPECT_EQ(got.indices, std::vector<std::int64_t>{96});
  EXPECT_EQ(got.parts.at(0), sent);
  EXPECT_TRUE(rig.has_nothing(requests));
  EXPECT_EQ(rig.receive("results").header.type, message_type::publisher);
  EXPECT_EQ(rig.receive("results").header.type, message_type::published);
  rig.all.forget(requests);
  EXPECT_FALSE(rig.all.wants_requests());
  EXPECT_TRUE(rig.all.wants_results());
}

TEST(Subscriptions, ResultThatTheHostCannotReadIsWithheldAndHasNoNumber) {
  subscriptions_rig rig;
  client_record& owner = rig.connect("owner");
  client_record& listener = rig.connect("listener");
  ASSERT_TRUE(rig.subscribe(listener, 60, 1).admitted());
  rig.all.publish(rig.made(owner, 1, 1), {});
  EXPECT_EQ(rig.counters.results_withheld, 1U);
  rig.result(owner, 2, 1);
  EXPECT_EQ(rig.receive("listener").header.type, message_type::publisher);
  EXPECT_EQ(rig.receive("listener").header.sequence, 0U);
}

TEST(Subscriptions, ResultThatItsSenderWithholdsGoesToTheSenderAlone) {
  subscriptions_rig rig;
  client_record& owner = rig.connect("owner");
  client_record& listener = rig.connect("listener");
  ASSERT_TRUE(rig.subscribe(listener, 60, 1).admitted());
  request done = rig.made(owner, 1, 1);
  done.account = wire::sample_account{.filled = 3, .flags = wire::sample_flag::filled | wire::sample_flag::withheld};
  slot* const from = rig.slots.claim();
  rig.out.result(done, *from);
  slot_ring::drop(*from);
  EXPECT_EQ(rig.receive("owner").header.type, message_type::result);
  EXPECT_EQ(rig.counters.results_withheld, 1U);
  EXPECT_TRUE(rig.has_nothing(listener));
}

TEST(Subscriptions, SubscriberThatDoesNotReadIsBoundedAndLosesAlone) {
  subscriptions_rig rig;
  client_record& owner = rig.connect("owner");
  client_record& stalled = rig.connect("stalled", 1);
  constexpr std::size_t queue = 4 * reply_sender_rig::large_frame;
  ASSERT_TRUE(rig.subscribe(stalled, 60, 1, queue).admitted());
  EXPECT_EQ(rig.granted.queue_bytes, queue);
  constexpr std::uint64_t count = 500;  // the kernel's buffers hold some of these 32 MiB
  for (std::uint64_t id = 1; id <= count; ++id) {
    rig.result(owner, id, 1);
    EXPECT_EQ(rig.receive("owner").header.request_id, id);
    EXPECT_LE(rig.all.figures().queued_bytes, queue + 1024);
  }
  const std::uint64_t lost = rig.counters.results_lost;
  EXPECT_GT(lost, 0U);
  std::uint64_t heard = 0;
  for (std::uint64_t next = 0; heard + lost < count;) {
    (void)rig.all.flush();
    const auto got = rig.receive("stalled");
    if (got.header.type == message_type::published) {
      EXPECT_GE(got.header.sequence, next);
      next = got.header.sequence + 1;
      ++heard;
    }
  }
  rig.result(owner, count + 1, 1);
  EXPECT_EQ(rig.receive("stalled").header.sequence, count) << "each result that matches has a number";
  EXPECT_TRUE(rig.all.idle());
}

TEST(Subscriptions, QueueIsGrantedOutOfTheDaemonsMemoryAndGivenBack) {
  subscriptions_rig rig;
  client_record& listener = rig.connect("listener");
  const std::size_t before = rig.memory.used();
  ASSERT_TRUE(rig.subscribe(listener, 60, 0).admitted());
  EXPECT_EQ(rig.memory.used() - before, rig.granted.queue_bytes);
  ASSERT_TRUE(rig.subscribe(listener, 60, 0).admitted()) << "the same again";
  EXPECT_EQ(rig.memory.used() - before, rig.granted.queue_bytes);
  rig.all.unsubscribe(listener, 60);
  EXPECT_EQ(rig.memory.used(), before);
  ASSERT_TRUE(rig.subscribe(listener, 61, 0, UINT64_MAX).admitted());
  EXPECT_LE(rig.granted.queue_bytes, rig.memory.limit() / 16);
  rig.all.forget(listener);
  EXPECT_EQ(rig.memory.used(), before);
  EXPECT_FALSE(rig.all.wants_results());
}

TEST(Subscriptions, RefusesWhatItHasNotOrHasNoRoomFor) {
  subscriptions_rig rig;
  client_record& listener = rig.connect("listener");
  EXPECT_EQ(rig.all.subscribe(listener, 60, {.pipelines = {"none"}}, rig.granted).code, wire::status::unknown_pipeline);
  EXPECT_EQ(rig.subscribe(listener, 60, 0, 0, {"none"}).code, wire::status::malformed);
  for (std::uint64_t id = 1; id <= 4; ++id) {
    EXPECT_TRUE(rig.subscribe(listener, id, 0).admitted());
  }
  EXPECT_EQ(rig.subscribe(listener, 5, 0).code, wire::status::rejected);
  rig.all.unsubscribe(listener, 4);
  rig.memory.charge(rig.memory.left() - 1024);
  EXPECT_EQ(rig.subscribe(listener, 5, 0).code, wire::status::rejected);
}

TEST(Subscriptions, WhatASubscriberWithoutAConnectionMissesIsLostUntilItSubscribesAgain) {
  subscriptions_rig rig;
  client_record& owner = rig.connect("owner");
  client_record& gone = rig.connect("gone");
  ASSERT_TRUE(rig.subscribe(gone, 60, 1).admitted());
  rig.vanish("gone");
  while (rig.out.reaches(gone)) {
    rig.wait_for_router();
  }
  rig.result(owner, 1, 1);
  rig.result(owner, 2, 1);
  EXPECT_EQ(rig.counters.results_lost, 2U);
  rig.connect("back");
  gone.identity = "back";
  ASSERT_TRUE(rig.subscribe(gone, 60, 1).admitted());
  EXPECT_EQ(rig.granted.next_sequence, 2U);
  rig.result(owner, 3, 1);
  EXPECT_EQ(rig.receive("back").header.type, message_type::publisher);
  EXPECT_EQ(rig.receive("back").header.sequence, 2U);
}

TEST(Subscriptions, PublisherEndsWithItsSession) {
  subscriptions_rig rig;
  client_record& owner = rig.connect("owner");
  client_record& listener = rig.connect("listener");
  ASSERT_TRUE(rig.subscribe(listener, 60, 0).admitted());
  session_record* const session = rig.sessions.open(owner, rig.plans[0], "s", time_point{});
  slot* const from = rig.slots.claim();
  request done = rig.made(owner, 1);
  done.session = session;
  rig.out.result(done, *from);
  slot_ring::drop(*from);
  EXPECT_EQ(rig.receive("listener").header.type, message_type::publisher);
  EXPECT_EQ(rig.receive("listener").header.type, message_type::published);
  rig.all.sweep();
  EXPECT_TRUE(rig.has_nothing(listener));
  session_table::close(*session);
  rig.all.sweep();
  const auto ended = rig.receive("listener");
  EXPECT_EQ(ended.header.type, message_type::publisher);
  EXPECT_EQ(ended.parts.at(0), R"({"session":1,"ended":true})");
}

}  // namespace
}  // namespace penstock
