#include "daemon/egress/egress.hpp"

#include <string>

#include <gtest/gtest.h>

#include "daemon/request/session_table.hpp"
#include "tests/daemon/egress/egress_rig.hpp"

namespace penstock {
namespace {

using testing::egress_rig;
using wire::message_type;
using wire::status;

// What a slot of plan 0 has when its batch of four frames is done, and what frames 1 and 2 of it are worth.
struct four_frames {
  std::string next = testing::payload_of(4 * egress_rig::small_frame, 3);
  std::int32_t sums[4] = {10, 20, 30, 40};

  void lie_in(slot& of, const egress_rig& rig) const {
    std::memcpy(of.pinned_output.get(), next.data(), next.size());
    std::memcpy(of.pinned_output.get() + rig.plans[0].outputs[1].pinned_offset, sums, sizeof sums);
  }
  [[nodiscard]] std::string middle_next() const {
    return next.substr(egress_rig::small_frame, 2 * egress_rig::small_frame);
  }
  [[nodiscard]] std::string middle_sums() const { return {reinterpret_cast<const char*>(sums + 1), 8}; }
};

TEST(Egress, SendsEveryOutputOfTheRequestsFrames) {
  egress_rig rig;
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
  const egress_rig::message got = rig.receive("a");
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

TEST(Egress, CopiesASmallOutputSoThatItsSlotIsFreeAtOnce) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  std::memset(from.pinned_output.get(), 'x', egress_rig::small_frame);
  rig.out.result(rig.made(client, 1), from);
  EXPECT_EQ(from.references.load(), 1U);
  std::memset(from.pinned_output.get(), 'y', egress_rig::small_frame);
  EXPECT_EQ(rig.receive("a").parts[0], std::string(egress_rig::small_frame, 'x'));
}

TEST(Egress, SendsFewBytesBehindTheirHeadersToWhoTakesThemSo) {
  egress_rig rig;
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
  const egress_rig::message got = rig.receive("a");
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
  const egress_rig::message apart = rig.receive("a");
  EXPECT_EQ(apart.parts.size(), 2U);
  EXPECT_EQ(apart.behind, "");
}

TEST(Egress, SendsWhatWasWrittenOverItsPayloadInAPartOfItsOwn) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  client.inline_bytes = SIZE_MAX;
  slot& from = *rig.slots.claim();
  from.work.rewrites = true;
  rig.received.keep(0, zmq::message_t(std::string(egress_rig::large_frame, 'x')));
  rig.out.result(rig.made(client, 1, 2), from);
  EXPECT_EQ(rig.receive("a").parts, std::vector<std::string>{std::string(egress_rig::large_frame, 'x')});
}

TEST(Egress, LendsALargeOutputAndGetsTheSlotBackOnceItIsSent) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  std::memset(from.pinned_output.get(), 'x', egress_rig::large_frame);
  from.references.fetch_add(1);  // as long as the test looks at it
  rig.out.result(rig.made(client, 1, 1), from);
  EXPECT_EQ(rig.receive("a").parts[0], std::string(egress_rig::large_frame, 'x'));
  ring::drop(from);
  ring::drop(from);
  EXPECT_TRUE(rig.wait_for_free(8));
}

TEST(Egress, SendsThePayloadItselfThatItsResultWasWrittenOver) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  from.work.rewrites = true;
  request asked = rig.made(client, 1, 2);
  asked.index = 3000;
  rig.received.keep(asked.index, zmq::message_t(std::string(egress_rig::large_frame, 'x')));
  rig.out.result(asked, from);
  EXPECT_EQ(from.references.load(), 1U) << "nothing of the slot is under way";
  EXPECT_TRUE(rig.received.bytes(asked.index).empty());
  EXPECT_EQ(rig.receive("a").parts, std::vector<std::string>{std::string(egress_rig::large_frame, 'x')});
}

TEST(Egress, RepeatsThePayloadItselfThatItsResultWasWrittenOver) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  slot& from = *rig.slots.claim();
  from.work.rewrites = true;
  session_record session;
  session.number = 8;
  request asked = rig.made(client, 1, 2);
  asked.session = &session;
  rig.received.keep(asked.index, zmq::message_t(std::string(egress_rig::large_frame, 'x')));
  rig.out.result(asked, from);
  const egress_rig::message first = rig.receive("a");
  EXPECT_TRUE(rig.out.repeat(client, 1));
  EXPECT_EQ(rig.receive("a").parts, first.parts);
  EXPECT_EQ(first.parts, std::vector<std::string>{std::string(egress_rig::large_frame, 'x')});
}

TEST(Egress, SendsAnErrorWithItsBody) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  rig.out.error(rig.made(client, 5), status::expired, {"too late", "queued", "", ""});
  const egress_rig::message got = rig.receive("a");
  EXPECT_EQ(got.header.type, message_type::error);
  EXPECT_EQ(got.header.code, status::expired);
  EXPECT_EQ(got.header.request_id, 5U);
  const auto body = wire::decode_error_body(std::as_bytes(std::span(got.parts.at(0))));
  ASSERT_TRUE(body);
  EXPECT_EQ(body->reason, "too late");
  EXPECT_EQ(body->step, "queued");
}

TEST(Egress, RefusesAClientThatItDoesNotKnowWithItsOwnHeader) {
  egress_rig rig;
  (void)rig.connect("a");
  wire::message_header about;
  about.major = 7;
  about.header_len = 4000;
  about.tensors = 64;
  about.request_id = 12;
  about.timeout_ns = 5;
  rig.out.refuse("a", nullptr, about, status::malformed, {"bad", "ingress", "", ""});
  const egress_rig::message got = rig.receive("a");
  EXPECT_EQ(got.header.major, wire::major_version);
  EXPECT_EQ(got.header.header_len, wire::header_bytes);
  EXPECT_EQ(got.header.tensors, 0U);
  EXPECT_EQ(got.header.timeout_ns, 0U);
  EXPECT_EQ(got.header.request_id, 12U);
  EXPECT_EQ(got.header.code, status::malformed);
}

TEST(Egress, CountsRepliesToNobody) {
  egress_rig rig;
  client_record& ghost = *rig.clients.admit("was never here", time_point{});
  rig.result(ghost, 1);
  rig.out.refuse("neither was this", nullptr, {}, status::malformed, {});
  EXPECT_EQ(rig.counters.replies_undeliverable, 2U);
  EXPECT_EQ(rig.counters.replies_sent, 0U);
  EXPECT_TRUE(rig.out.idle());
}

TEST(Egress, CountsRepliesToAClientThatHasVanished) {
  egress_rig rig;
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

TEST(Egress, GivesALentSlotBackWhenItsReplyCannotBeDelivered) {
  egress_rig rig;
  client_record& ghost = *rig.clients.admit("was never here", time_point{});
  rig.result(ghost, 1, 1);
  EXPECT_EQ(rig.counters.replies_undeliverable, 1U);
  EXPECT_EQ(rig.slots.free(), 8U);
}

TEST(Egress, SendsNothingToAClientThatSaidGoodbye) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  client.gone = true;
  rig.result(client, 1);
  EXPECT_EQ(rig.counters.replies_undeliverable, 1U);
  client.gone = false;
  EXPECT_TRUE(rig.has_nothing(client));
}

TEST(Egress, RepeatsAFinishedReply) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  rig.result(client, 5);
  const egress_rig::message first = rig.receive("a");
  EXPECT_TRUE(rig.out.repeat(client, 5));
  const egress_rig::message second = rig.receive("a");
  EXPECT_EQ(first.header, second.header);
  EXPECT_EQ(first.parts, second.parts);
  EXPECT_TRUE(rig.out.repeat(client, 5)) << "and again";
}

TEST(Egress, RepeatsNothingThatItDidNotKeep) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  EXPECT_FALSE(rig.out.repeat(client, 0));
  EXPECT_FALSE(rig.out.repeat(client, 5));
  rig.result(client, 5);
  EXPECT_FALSE(rig.out.repeat(client, 6));
  EXPECT_FALSE(rig.out.repeat(rig.connect("b"), 5)) << "another client's reply";
}

// However much the cache may hold: a kept reply must not keep a slot from the ring.
TEST(Egress, NeverKeepsALentSlotInTheCache) {
  client_settings limits;
  limits.credit_requests = 16;
  limits.reply_cache_bytes = std::size_t{1} << 30U;
  egress_rig rig(limits);
  client_record& client = rig.connect("a");
  for (std::uint64_t id = 1; id <= 16; ++id) {
    rig.result(client, id, 1);
    (void)rig.receive("a");
  }
  EXPECT_TRUE(rig.wait_for_free(8));
}

TEST(Egress, KeepsNoReplyThatIsTooLarge) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  rig.result(client, 2, 1);
  EXPECT_FALSE(rig.out.repeat(client, 2));
}

TEST(Egress, KeepsNoReplyWithoutBytesForIt) {
  client_settings limits;
  limits.reply_cache_bytes = 0;
  egress_rig rig(limits);
  client_record& client = rig.connect("a");
  rig.result(client, 1);
  EXPECT_FALSE(rig.out.repeat(client, 1));
}

TEST(Egress, ForgetsACacheWithItsClient) {
  egress_rig rig;
  client_record& client = rig.connect("a");
  rig.result(client, 1);
  rig.out.forget(client);
  EXPECT_FALSE(rig.out.repeat(client, 1));
}

}  // namespace
}  // namespace penstock
