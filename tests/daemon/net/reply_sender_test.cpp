#include "daemon/net/reply_sender.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/request/sessions.hpp"
#include "tests/daemon/net/reply_sender_rig.hpp"

namespace penstock {
namespace {

using testing::reply_sender_rig;
using wire::message_type;
using wire::status;

// What a slot of plan 0 has when its batch of four frames is done, and what frames 1 and 2 of it are worth.
struct four_frames {
  std::string next = testing::payload_of(4 * reply_sender_rig::small_frame, 3);
  std::int32_t sums[4] = {10, 20, 30, 40};

  void lie_in(slot& slot, const reply_sender_rig& rig) const {
    std::memcpy(slot.pinned_output.get(), next.data(), next.size());
    std::memcpy(slot.pinned_output.get() + rig.plans[0].outputs[1].pinned_offset, sums, sizeof sums);
  }
  [[nodiscard]] std::string middle_next() const {
    return next.substr(reply_sender_rig::small_frame, 2 * reply_sender_rig::small_frame);
  }
  [[nodiscard]] std::string middle_sums() const { return {reinterpret_cast<const char*>(sums + 1), 8}; }
};

TEST(ReplySender, SendsEveryOutputOfTheRequestsFrames) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  const four_frames done;
  done.lie_in(from, rig);
  request asked = rig.made(client, 99);
  asked.first_frame = 1;
  asked.frames = 2;
  asked.sequence = 7;
  session_record session;
  session.number = 8;
  asked.session = &session;
  asked.trace_id.fill(std::byte{9});
  rig.out.result(asked, from);
  const reply_sender_rig::message got = rig.receive("a");
  EXPECT_EQ(got.header.type, message_type::result);
  EXPECT_EQ(got.header.request_id, 99U);
  EXPECT_EQ(got.header.frames, 2U);
  EXPECT_EQ(got.header.sequence, 7U);
  EXPECT_EQ(got.header.session, 8U);
  EXPECT_EQ(got.header.trace_id, asked.trace_id);
  EXPECT_EQ(got.header.tensors, 2U);
  ASSERT_EQ(got.parts.size(), 2U);
  EXPECT_EQ(got.parts[0], done.middle_next());
  EXPECT_EQ(got.parts[1], done.middle_sums());
  EXPECT_EQ(got.tensor.shape[0], 2);
  EXPECT_EQ(got.tensor.shape[1], 16);
  EXPECT_EQ(got.tensor.bytes, 32U);
  EXPECT_EQ(rig.counters.replies_sent, 1U);
  EXPECT_EQ(rig.counters.payload_bytes_out, 40U);
}

TEST(ReplySender, RepeatsTheAccountAndSaysWhereTheOutputsStand) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  const four_frames done;
  done.lie_in(from, rig);
  rig.plans[0].outputs[1].timing = step_timing{}.then({.rate = {.divisor = 8, .offset = 7}, .delay = 2.5});
  request asked = rig.made(client, 99);
  asked.first_frame = 1;
  asked.frames = 2;
  asked.steps_before = 20;
  asked.account = wire::sample_account{.index = 1020, .epoch = 4, .flags = wire::sample_flag::index_known};
  rig.out.result(asked, from);
  reply_sender_rig::message got = rig.receive("a");
  EXPECT_EQ(got.header.header_len, 104U + 2 * 8);
  EXPECT_EQ(got.account, asked.account);
  EXPECT_EQ(got.indices, (std::vector<std::int64_t>{1020, 1020 + 4 - 3})) << "the decimation keeps step 24";
  EXPECT_EQ(got.tensor.shape[1], 16);
  EXPECT_EQ(got.parts, (std::vector<std::string>{done.middle_next(), done.middle_sums()}));

  client.inline_bytes = 4096;
  asked.id = 100;
  rig.out.result(asked, from);
  got = rig.receive("a");
  EXPECT_EQ(got.account, asked.account);
  EXPECT_EQ(got.behind, done.middle_next() + done.middle_sums());
  EXPECT_TRUE(rig.out.repeat(client, 100));
  EXPECT_EQ(rig.receive("a").indices, got.indices);

  asked.id = 101;
  asked.account.reset();
  rig.out.result(asked, from);
  EXPECT_EQ(rig.receive("a").header.header_len, wire::header_bytes);
}

TEST(ReplySender, CopiesASmallOutputSoThatItsSlotIsFreeAtOnce) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  std::memset(from.pinned_output.get(), 'x', reply_sender_rig::small_frame);
  rig.out.result(rig.made(client, 1), from);
  EXPECT_EQ(from.references.load(), 1U);
  std::memset(from.pinned_output.get(), 'y', reply_sender_rig::small_frame);
  EXPECT_EQ(rig.receive("a").parts[0], std::string(reply_sender_rig::small_frame, 'x'));
}

TEST(ReplySender, SendsFewBytesBehindTheirHeadersToWhoTakesThemSo) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  const four_frames done;
  done.lie_in(from, rig);
  request asked = rig.made(client, 99);
  asked.first_frame = 1;
  asked.frames = 2;
  const std::string both = done.middle_next() + done.middle_sums();
  client.inline_bytes = both.size();
  rig.out.result(asked, from);
  std::memset(from.pinned_output.get(), 'y', done.next.size());
  const reply_sender_rig::message got = rig.receive("a");
  EXPECT_EQ(got.header.tensors, 2U);
  EXPECT_EQ(got.tensor.bytes, 32U);
  EXPECT_TRUE(got.parts.empty());
  EXPECT_EQ(got.behind, both);
  EXPECT_EQ(from.references.load(), 1U);
  EXPECT_EQ(rig.counters.payload_bytes_out, both.size());
  EXPECT_TRUE(rig.out.repeat(client, 99));
  EXPECT_EQ(rig.receive("a").behind, both);

  client.inline_bytes = both.size() - 1;
  asked.id = 100;
  rig.out.result(asked, from);
  const reply_sender_rig::message apart = rig.receive("a");
  EXPECT_EQ(apart.parts.size(), 2U);
  EXPECT_EQ(apart.behind, "");
}

TEST(ReplySender, SendsWhatWasWrittenOverItsPayloadInAPartOfItsOwn) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  client.inline_bytes = SIZE_MAX;
  slot& from = *rig.slots.claim();
  request asked = rig.made(client, 1, 2);
  asked.payload = payload_mode::rewritten;
  rig.received.keep(0, zmq::message_t(std::string(reply_sender_rig::large_frame, 'x')));
  rig.out.result(asked, from);
  EXPECT_EQ(rig.receive("a").parts, std::vector<std::string>{std::string(reply_sender_rig::large_frame, 'x')});
}

TEST(ReplySender, LendsALargeOutputAndGetsTheSlotBackOnceItIsSent) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  std::memset(from.pinned_output.get(), 'x', reply_sender_rig::large_frame);
  from.references.fetch_add(1);  // as long as the test looks at it
  rig.out.result(rig.made(client, 1, 1), from);
  EXPECT_EQ(rig.receive("a").parts[0], std::string(reply_sender_rig::large_frame, 'x'));
  slot_ring::drop(from);
  slot_ring::drop(from);
  EXPECT_TRUE(rig.wait_for_free(8));
}

TEST(ReplySender, SendsThePayloadItselfThatItsResultWasWrittenOver) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  request asked = rig.made(client, 1, 2);
  asked.payload = payload_mode::rewritten;
  asked.index = 3000;
  rig.received.keep(asked.index, zmq::message_t(std::string(reply_sender_rig::large_frame, 'x')));
  rig.out.result(asked, from);
  EXPECT_EQ(from.references.load(), 1U) << "nothing of the slot is under way";
  EXPECT_TRUE(rig.received.bytes(asked.index).empty());
  EXPECT_EQ(rig.receive("a").parts, std::vector<std::string>{std::string(reply_sender_rig::large_frame, 'x')});
}

TEST(ReplySender, RepeatsThePayloadItselfThatItsResultWasWrittenOver) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  session_record session;
  session.number = 8;
  request asked = rig.made(client, 1, 2);
  asked.payload = payload_mode::rewritten;
  asked.session = &session;
  rig.received.keep(asked.index, zmq::message_t(std::string(reply_sender_rig::large_frame, 'x')));
  rig.out.result(asked, from);
  const reply_sender_rig::message first = rig.receive("a");
  EXPECT_TRUE(rig.out.repeat(client, 1));
  EXPECT_EQ(rig.receive("a").parts, first.parts);
  EXPECT_EQ(first.parts, std::vector<std::string>{std::string(reply_sender_rig::large_frame, 'x')});
}

TEST(ReplySender, SendsAnErrorWithItsBody) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  rig.out.error(rig.made(client, 5), status::expired, {"too late", "queued", "", ""});
  const reply_sender_rig::message got = rig.receive("a");
  EXPECT_EQ(got.header.type, message_type::error);
  EXPECT_EQ(got.header.code, status::expired);
  EXPECT_EQ(got.header.request_id, 5U);
  const auto body = wire::decode_error_body(std::as_bytes(std::span(got.parts.at(0))));
  ASSERT_TRUE(body);
  EXPECT_EQ(body->reason, "too late");
  EXPECT_EQ(body->step, "queued");
}

TEST(ReplySender, RefusesAClientThatItDoesNotKnowWithItsOwnHeader) {
  reply_sender_rig rig;
  (void)rig.connect("a");
  wire::message_header about;
  about.major = 7;
  about.header_len = 4000;
  about.tensors = 64;
  about.request_id = 12;
  about.timeout_ns = 5;
  rig.out.refuse("a", nullptr, about, status::malformed, {"bad", "ingress", "", ""});
  const reply_sender_rig::message got = rig.receive("a");
  EXPECT_EQ(got.header.major, wire::major_version);
  EXPECT_EQ(got.header.header_len, wire::header_bytes);
  EXPECT_EQ(got.header.tensors, 0U);
  EXPECT_EQ(got.header.timeout_ns, 0U);
  EXPECT_EQ(got.header.request_id, 12U);
  EXPECT_EQ(got.header.code, status::malformed);
}

TEST(ReplySender, CountsRepliesToNobody) {
  reply_sender_rig rig;
  client_record& ghost = *rig.clients.admit("was never here", time_point{});
  rig.result(ghost, 1);
  rig.out.refuse("neither was this", nullptr, {}, status::malformed, {});
  EXPECT_EQ(rig.counters.replies_undeliverable, 2U);
  EXPECT_EQ(rig.counters.replies_sent, 0U);
  EXPECT_TRUE(rig.out.idle());
}

TEST(ReplySender, CountsRepliesToAClientThatHasVanished) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  client_record& other = rig.connect("b");
  rig.vanish("a");
  std::uint64_t sent = 0;
  for (; rig.counters.replies_undeliverable == 0 && sent < 2000; ++sent) {
    rig.result(client, sent);
    rig.wait_for_router();
  }
  EXPECT_EQ(rig.counters.replies_undeliverable, 1U);
  rig.result(other, 7);
  EXPECT_EQ(rig.receive("b").header.request_id, 7U);
}

TEST(ReplySender, GivesALentSlotBackWhenItsReplyCannotBeDelivered) {
  reply_sender_rig rig;
  client_record& ghost = *rig.clients.admit("was never here", time_point{});
  rig.result(ghost, 1, 1);
  EXPECT_EQ(rig.counters.replies_undeliverable, 1U);
  EXPECT_EQ(rig.slots.free(), 8U);
}

TEST(ReplySender, SendsNothingToAClientThatSaidGoodbye) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  client.gone = true;
  rig.result(client, 1);
  EXPECT_EQ(rig.counters.replies_undeliverable, 1U);
  client.gone = false;
  EXPECT_TRUE(rig.has_nothing(client));
}

TEST(ReplySender, RepeatsAFinishedReply) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  rig.result(client, 5);
  const reply_sender_rig::message first = rig.receive("a");
  EXPECT_TRUE(rig.out.repeat(client, 5));
  const reply_sender_rig::message second = rig.receive("a");
  EXPECT_EQ(first.header, second.header);
  EXPECT_EQ(first.parts, second.parts);
  EXPECT_TRUE(rig.out.repeat(client, 5)) << "and again";
}

TEST(ReplySender, RepeatsNothingThatItDidNotKeep) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  EXPECT_FALSE(rig.out.repeat(client, 0));
  EXPECT_FALSE(rig.out.repeat(client, 5));
  rig.result(client, 5);
  EXPECT_FALSE(rig.out.repeat(client, 6));
  EXPECT_FALSE(rig.out.repeat(rig.connect("b"), 5)) << "another client's reply";
}

// However much the cache may hold: a kept reply must not keep a slot from the ring.
TEST(ReplySender, NeverKeepsALentSlotInTheCache) {
  client_settings limits;
  limits.credit_requests = 16;
  limits.reply_cache_bytes = std::size_t{1} << 30U;
  reply_sender_rig rig(limits);
  client_record& client = rig.connect("a");
  for (std::uint64_t id = 1; id <= 16; ++id) {
    rig.result(client, id, 1);
    (void)rig.receive("a");
  }
  EXPECT_TRUE(rig.wait_for_free(8));
}

TEST(ReplySender, KeepsNoReplyThatIsTooLarge) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  rig.result(client, 2, 1);
  EXPECT_FALSE(rig.out.repeat(client, 2));
}

TEST(ReplySender, KeepsNoReplyWithoutBytesForIt) {
  client_settings limits;
  limits.reply_cache_bytes = 0;
  reply_sender_rig rig(limits);
  client_record& client = rig.connect("a");
  rig.result(client, 1);
  EXPECT_FALSE(rig.out.repeat(client, 1));
}

TEST(ReplySender, ForgetsACacheWithItsClient) {
  reply_sender_rig rig;
  client_record& client = rig.connect("a");
  rig.result(client, 1);
  rig.out.forget(client);
  EXPECT_FALSE(rig.out.repeat(client, 1));
}

// A client that does not read, up to the point where ZeroMQ takes nothing more for it and `waiting` replies are queued.
class SlowClient : public ::testing::Test {
 protected:
  static client_settings limits() {
    client_settings some;
    some.credit_requests = 16;
    some.reply_queue_bytes = 4 * (reply_sender_rig::large_frame + 1024);
    some.reply_cache_bytes = 0;
    return some;
  }

  SlowClient() {
    while (rig_.out.idle() && sent_ < 5000) {
      send();
    }
  }
  void send() {
    ++sent_;
    rig_.result(slow_, sent_, 1, static_cast<char>(sent_));
  }
  void expect_reply(std::uint64_t id) {
    const reply_sender_rig::message got = rig_.receive("slow");
    ASSERT_EQ(got.header.request_id, id) << "out of order, or lost";
    ASSERT_EQ(got.parts[0], std::string(reply_sender_rig::large_frame, static_cast<char>(id)));
  }

  reply_sender_rig rig_{limits(), 8};
  client_record& slow_{rig_.connect("slow", 1)};
  std::uint64_t sent_ = 0;
};

TEST_F(SlowClient, IsQueuedForOnceZeroMqIsFull) {
  EXPECT_FALSE(rig_.out.idle());
  EXPECT_EQ(rig_.counters.replies_sent, sent_ - 1);
  EXPECT_EQ(rig_.counters.replies_dropped, 0U);
}

TEST_F(SlowClient, LosesOnlyWhatItsQueueCannotHoldAndNobodyElseLosesAnything) {
  client_record& other = rig_.connect("other");
  for (int more = 0; more < 10; ++more) {
    send();
  }
  EXPECT_EQ(rig_.counters.replies_dropped, 7U) << "4 fit into the queue, one of them was there before";
  for (std::uint64_t id = 1; id <= 20; ++id) {
    rig_.result(other, id, 1);
    EXPECT_EQ(rig_.receive("other").header.request_id, id);
  }
  EXPECT_EQ(rig_.counters.replies_dropped, 7U);
}

TEST_F(SlowClient, LeavesSlotsForTheOthers) {
  for (int more = 0; more < 10; ++more) {
    send();
  }
  rig_.slots.collect();
  EXPECT_GE(rig_.slots.free(), 3U) << "lent are at most as many as leave a quarter and one free";
}

TEST_F(SlowClient, GetsEverythingInOrderOnceItReads) {
  send();
  send();
  std::uint64_t got = 0;
  while (got < sent_) {
    expect_reply(++got);
    rig_.out.flush();
    while (got == sent_ - 3 && !rig_.out.idle()) {
      rig_.wait_for_router();
      rig_.out.flush();
    }
  }
  EXPECT_TRUE(rig_.out.idle());
  EXPECT_EQ(rig_.counters.replies_sent, sent_);
  EXPECT_TRUE(rig_.wait_for_free(8));
}

TEST_F(SlowClient, IsAnsweredBehindItsQueue) {
  rig_.out.control("slow", &slow_, testing::pong_header(1000000), "");
  std::uint64_t got = 0;
  while (got < sent_) {
    expect_reply(++got);
    rig_.out.flush();
    if (got == sent_ - 1) {
      while (!rig_.out.idle()) {
        rig_.wait_for_router();
        rig_.out.flush();
      }
    }
  }
  EXPECT_EQ(rig_.receive("slow").header.request_id, 1000000U);
}

TEST_F(SlowClient, HoldsNoSlotOnceItIsForgottenAndItsConnectionClosed) {
  send();
  const std::uint64_t waiting = sent_ - rig_.counters.replies_sent;
  rig_.out.forget(slow_);
  EXPECT_TRUE(rig_.out.idle());
  EXPECT_EQ(rig_.counters.replies_undeliverable, waiting);
  rig_.vanish("slow");
  for (int wait = 0; wait < 2000 && rig_.slots.free() < 8; ++wait) {
    rig_.wait_for_router();
    rig_.slots.collect();
  }
  EXPECT_EQ(rig_.slots.free(), 8U);
}

TEST_F(SlowClient, IsCountedUndeliverableWhenItVanishesWithRepliesWaiting) {
  rig_.vanish("slow");
  while (!rig_.out.idle()) {
    rig_.wait_for_router();
    rig_.out.flush();
  }
  EXPECT_GE(rig_.counters.replies_undeliverable, 1U);
  EXPECT_EQ(rig_.counters.replies_sent + rig_.counters.replies_undeliverable, sent_);
}

}  // namespace
}  // namespace penstock
