// Payloads behind their headers, on their way in and out.

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/shard/shard_rig.hpp"

namespace penstock {
namespace {

using testing::expect_error;
using testing::guest;
using testing::raw_message;
using testing::shard_rig;
using testing::submit_draft;
using wire::message_type;
using wire::status;

TEST(OnePart, TakesAndGivesSmallPayloadsInOnePart) {
  // More than the slots hold: what waits keeps its payload where it came in.
  shard_rig rig({.plans = {{.max_frames = 4}}, .slots = 2, .credit_requests = 16, .held = true});
  guest client(rig);
  EXPECT_EQ(client.welcome.inline_bytes, wire::max_inline_bytes);
  EXPECT_EQ(client.hello(40).inline_bytes, wire::max_inline_bytes);
  std::vector<submit_draft> sent;
  for (std::uint64_t id = 1; id <= 16; ++id) {
    sent.emplace_back(id, 1 + id % 4);
    client.send(id % 5 == 0 ? sent.back().parts() : sent.back().in_one_part());
  }
  EXPECT_TRUE(client.has_nothing());
  client.send_control(message_type::cancel, 14);
  expect_error(client.next(), status::cancelled, 14);
  rig.device.let_run();
  std::vector<raw_message> replies;
  for (int count = 0; count < 15; ++count) {
    replies.push_back(client.next());
  }
  std::uint64_t repeated = 0;
  for (const raw_message& got : replies) {
    EXPECT_EQ(got.header.type, message_type::result);
    const submit_draft& of = sent.at(got.header.request_id - 1);
    const std::vector<std::int32_t> sums = testing::sums_of(of.payload, of.header.frames);
    const std::string outputs = testing::next_of(of.payload) +
                                std::string(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof sums[0]);
    if (outputs.size() <= 40) {
      EXPECT_EQ(got.parts.size(), 1U);
      EXPECT_EQ(got.behind(), outputs);
      client.send(of.in_one_part());
      EXPECT_EQ(client.next().behind(), outputs) << "the repeat";
      ++repeated;
    } else {
      ASSERT_EQ(got.parts.size(), 3U);
      EXPECT_EQ(got.behind(), "");
      EXPECT_EQ(got.parts[1] + got.parts[2], outputs);
    }
  }
  const nlohmann::json status = client.status();
  EXPECT_TRUE(status.at("balanced").get<bool>());
  EXPECT_EQ(status.at("repeats").at("answered"), repeated);
}

TEST(OnePart, CountsThePayloadBehindTheHeadersAgainstTheCredits) {
  shard_rig rig({.credit_bytes = 40, .max_request_bytes = 32, .held = true});
  guest client(rig);
  client.send(submit_draft(1, 3).in_one_part());
  expect_error(client.next(), status::too_large, 1);
  client.send(submit_draft(2, 2).in_one_part());
  client.send(submit_draft(3, 1).in_one_part());
  expect_error(client.next(), status::no_credit, 3);
  rig.device.let_run();
  EXPECT_EQ(client.next().header.request_id, 2U);
}

TEST(OnePart, SendsNoMoreInOnePartThanItSaysItself) {
  // With the four bytes of its other output the first has 4096 in all.
  shard_rig rig({.plans = {{.shape = {4092}}, {.shape = {4093}}}});
  guest client(rig);
  client.hello(std::numeric_limits<std::uint64_t>::max());
  for (const std::uint32_t pipeline : {0U, 1U}) {
    const std::uint32_t length = 4092 + pipeline;
    submit_draft large(1 + pipeline, 1, pipeline);
    large.tensor.shape = {1, length};
    large.tensor.bytes = length;
    large.payload = testing::payload_of(length, 1);
    client.send(large.in_one_part());
    const raw_message got = client.next();
    ASSERT_EQ(got.parts.size(), pipeline == 0 ? 1U : 3U);
    EXPECT_EQ(pipeline == 0 ? got.behind().substr(0, length) : got.parts[1], testing::next_of(large.payload));
  }
}

TEST(OnePart, SendsInOnePartToWhoSaidSoLast) {
  shard_rig rig;
  guest client(rig);
  const auto parts_of_a_result = [&client](std::uint64_t id) {
    client.submit(id);
    return client.next().parts.size();
  };
  EXPECT_EQ(parts_of_a_result(1), 3U);
  client.hello(4096);
  EXPECT_EQ(parts_of_a_result(2), 1U);
  client.hello(0);
  EXPECT_EQ(parts_of_a_result(3), 3U);
}

TEST(OnePart, RepeatsAReplyAsItWasSentUntilItsClientLeaves) {
  shard_rig rig;
  guest client(rig);
  client.hello(4096);
  client.submit(1);
  EXPECT_EQ(client.next().parts.size(), 1U);
  client.hello(0);
  client.submit(1);
  EXPECT_EQ(client.next().parts.size(), 1U);
  EXPECT_EQ(client.status().at("repeats").at("answered"), 1U);
  client.send_control(message_type::goodbye, 0);
  client.hello(0);
  client.submit(1);
  EXPECT_EQ(client.next().parts.size(), 3U) << "computed again";
}

TEST(OnePart, FindsThePayloadBehindHeadersThatAreLongerThanItKnows) {
  shard_rig rig({.slots = 1, .held = true});
  guest client(rig);
  client.hello(4096);
  std::vector<submit_draft> sent;
  // The first has the slot, and the others wait for it.
  constexpr std::array<std::uint16_t, 8> lengths{64, 65, 80, 4096, 64, 65, 80, 4096};
  for (const std::uint16_t header_len : lengths) {
    const submit_draft& draft = sent.emplace_back(sent.size() + 1);
    std::string part = draft.in_one_part().front();
    part.insert(wire::header_bytes, header_len - wire::header_bytes, '?');
    std::memcpy(part.data() + 6, &header_len, sizeof header_len);  // where PROTOCOL.md has it
    client.send({part});
  }
  EXPECT_TRUE(client.has_nothing());
  rig.device.let_run();
  for (std::size_t count = 0; count < sent.size(); ++count) {
    const raw_message got = client.next();
    ASSERT_EQ(got.header.type, message_type::result) << got.header.request_id;
    const std::string& payload = sent.at(got.header.request_id - 1).payload;
    EXPECT_EQ(got.behind().substr(0, payload.size()), testing::next_of(payload)) << got.header.request_id;
  }
}

}  // namespace
}  // namespace penstock
