#include "daemon/net/message_handler.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/shard/shard_rig.hpp"

namespace penstock {
namespace {

using testing::expect_error;
using testing::guest;
using testing::raw_message;
using testing::raw_peer;
using testing::shard_rig;
using testing::shard_wish;
using testing::submit_draft;
using wire::message_type;
using wire::status;

void expect_result(const raw_message& got, std::uint64_t id, const std::string& payload) {
  EXPECT_EQ(got.header.type, message_type::result);
  EXPECT_EQ(got.header.request_id, id);
  ASSERT_EQ(got.parts.size(), 3U);
  EXPECT_EQ(got.parts[1], testing::next_of(payload));
}

TEST(MessageHandler, WelcomesWithPipelinesAndCredits) {
  shard_rig rig({.plans = {{}, {.shape = {8, 3}, .variable = true, .type = element_type::cu8, .max_frames = 5}},
                 .credit_requests = 3,
                 .credit_bytes = 1000,
                 .max_request_bytes = 500});
  const guest client(rig);
  EXPECT_EQ(client.welcome.credit_requests, 3U);
  EXPECT_EQ(client.welcome.credit_bytes, 1000U);
  EXPECT_EQ(client.welcome.max_request_bytes, 500U);
  ASSERT_EQ(client.welcome.pipelines.size(), 2U);
  const wire::pipeline_description& second = client.welcome.pipelines[1];
  EXPECT_EQ(second.id, 1U);
  EXPECT_EQ(second.name, "pipeline1");
  EXPECT_EQ(second.max_frames, 5U);
  EXPECT_EQ(second.input.dtype, "u8");
  EXPECT_EQ(second.input.element, "cu8");
  EXPECT_EQ(second.input.shape, (std::vector<std::int64_t>{8, 3, 2}));
  EXPECT_TRUE(second.input.variable);
  ASSERT_EQ(second.outputs.size(), 2U);
  EXPECT_EQ(second.outputs[1].name, "sum");
}

TEST(MessageHandler, RequiresHelloOfWhoSubmitsOrCancels) {
  shard_rig rig;
  raw_peer stranger(rig.endpoint());
  stranger.send(submit_draft(5).parts());
  expect_error(stranger.receive().value(), status::hello_required, 5);
  stranger.send_control(message_type::cancel, 6);
  expect_error(stranger.receive().value(), status::hello_required, 6);
  EXPECT_EQ(stranger.hello().server.find("penstockd"), 0U);
  stranger.send(submit_draft(5).parts());
  EXPECT_EQ(stranger.receive().value().header.type, message_type::result);
}

TEST(MessageHandler, AnswersPingOfAnyoneAndStatusOfWhoSaidHello) {
  shard_rig rig;
  raw_peer stranger(rig.endpoint());
  stranger.send_control(message_type::ping, 3);
  const raw_message pong = stranger.receive().value();
  EXPECT_EQ(pong.header.type, message_type::pong);
  EXPECT_EQ(pong.header.request_id, 3U);
  EXPECT_EQ(pong.parts.size(), 1U);
  stranger.send_control(message_type::get_status, 4);
  expect_error(stranger.receive().value(), status::hello_required, 4);
  stranger.hello();
  EXPECT_TRUE(stranger.status().at("balanced").get<bool>());
}

TEST(MessageHandler, RefusesTypesThatAClientMayNotSend) {
  shard_rig rig;
  guest client(rig);
  for (const int type : {0, 2, 5, 7, 9, 11, 13, 15, 19, 32, 33, 255}) {
    client.send_control(static_cast<message_type>(type), 9);
    expect_error(client.next(), status::unsupported_type, 9);
  }
  EXPECT_EQ(client.status().at("refused").at("UNSUPPORTED_TYPE"), 12);
}

TEST(MessageHandler, RefusesAHelloThatItCannotRead) {
  shard_rig rig;
  raw_peer stranger(rig.endpoint());
  for (const std::string body : {"", "{", "[]", R"({"client": 5})"}) {
    stranger.send_control(message_type::hello, 4, body);
    expect_error(stranger.receive().value(), status::malformed, 4);
  }
  stranger.send(submit_draft(1).parts());
  expect_error(stranger.receive().value(), status::hello_required, 1);
}

TEST(MessageHandler, RefusesAnUnknownPipeline) {
  shard_rig rig;
  guest client(rig);
  for (const std::uint32_t pipeline : {1U, 0xFFFFFFFFU}) {
    client.submit(3, 1, pipeline);
    const raw_message got = client.next();
    expect_error(got, status::unknown_pipeline, 3);
    EXPECT_NE(got.json().at("reason").get<std::string>().find(std::to_string(pipeline)), std::string::npos);
  }
}

TEST(MessageHandler, RefusesBeyondTheCreditsAndTakesAgainAfterAReply) {
  shard_rig rig({.credit_requests = 2, .held = true});
  guest client(rig);
  const std::string first = client.submit(1);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  const std::string second = client.submit(2);
  client.submit(3);
  expect_error(client.next(), status::no_credit, 3);
  rig.device.let_run();
  expect_result(client.next(), 1, first);
  expect_result(client.next(), 2, second);
  const std::string third = client.submit(3);
  expect_result(client.next(), 3, third);
  EXPECT_EQ(client.status().at("refused").at("NO_CREDIT"), 1);
}

TEST(MessageHandler, RefusesBeyondTheByteCredits) {
  shard_rig rig({.credit_bytes = 40, .held = true});
  guest client(rig);
  client.submit(1, 2);
  client.submit(2, 1);
  expect_error(client.next(), status::no_credit, 2);
}

TEST(MessageHandler, DropsTheOldestQueuedRequestWhereThePipelineSaysSo) {
  shard_rig rig({.plans = {{.max_frames = 1, .overflow = overflow_policy::drop_oldest}},
                 .credit_requests = 4,
                 .credit_bytes = 64,
                 .held = true});
  guest client(rig);
  client.submit(1);  // with the device
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  client.submit(2);  // in the second slot
  client.submit(3);  // queued
  client.submit(4);  // queued
  client.submit(5);
  const raw_message dropped = client.next();
  expect_error(dropped, status::overflow, 3);
  EXPECT_EQ(dropped.json().at("step"), "queued");
  client.submit(6);
  expect_error(client.next(), status::overflow, 4);
  rig.device.let_run();
  for (const std::uint64_t id : {1U, 2U, 5U, 6U}) {
    EXPECT_EQ(client.next().header.request_id, id);
  }
}

// It could never be taken: nothing must be dropped for it.
TEST(MessageHandler, DropsNothingForARequestLargerThanTheCredits) {
  shard_rig rig({.plans = {{.max_frames = 8, .overflow = overflow_policy::drop_oldest}},
                 .slots = 2,
                 .credit_requests = 4,
                 .credit_bytes = 100,
                 .held = true});
  guest client(rig);
  client.submit(1);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  client.submit(2);
  client.submit(3, 7);
  expect_error(client.next(), status::no_credit, 3);
  EXPECT_TRUE(client.has_nothing());
}

TEST(MessageHandler, IgnoresARepeatOfARequestInFlight) {
  shard_rig rig({.credit_requests = 1, .held = true});
  guest client(rig);
  const std::string payload = client.submit(7);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  client.submit(7);
  client.submit(7);
  EXPECT_TRUE(client.has_nothing()) << "not even for want of credits";
  rig.device.let_run();
  expect_result(client.next(), 7, payload);
  EXPECT_TRUE(client.has_nothing());
  const nlohmann::json status = client.status();
  EXPECT_EQ(status.at("repeats").at("ignored"), 2);
  EXPECT_EQ(status.at("requests").at("accepted"), 1);
}

TEST(MessageHandler, AnswersARepeatOfAFinishedRequestWithoutRunningIt) {
  shard_rig rig;
  guest client(rig);
  const std::string payload = client.submit(7);
  expect_result(client.next(), 7, payload);
  const std::size_t marks = rig.device.marks();
  client.submit(7);
  expect_result(client.next(), 7, payload);
  EXPECT_EQ(rig.device.marks(), marks);
  EXPECT_EQ(client.status().at("repeats").at("answered"), 1);
}

// A client's ids count up as a rule, and need not.
TEST(MessageHandler, KnowsARepeatInWhateverOrderIdsCome) {
  shard_rig rig;
  guest client(rig);
  std::map<std::uint64_t, std::string> payloads;
  for (const std::uint64_t id : {9U, 4U, 11U, 5U}) {
    payloads[id] = client.submit(id);
    expect_result(client.next(), id, payloads[id]);
  }
  const std::size_t marks = rig.device.marks();
  for (const auto& [id, payload] : payloads) {
    client.submit(id);
    expect_result(client.next(), id, payload);
  }
  EXPECT_EQ(rig.device.marks(), marks);
  EXPECT_EQ(client.status().at("repeats").at("answered"), payloads.size());
}

TEST(MessageHandler, TellsTheRequestsOfTwoClientsApart) {
  shard_rig rig;
  guest ann(rig);
  guest ben(rig);
  const std::string anns = ann.submit(7, 1);
  const std::string bens = ben.submit(7, 2);
  expect_result(ann.next(), 7, anns);
  expect_result(ben.next(), 7, bens);
}

TEST(MessageHandler, CancelsWhatIsInFlightAndSaysAtWhichStep) {
  shard_rig rig({.plans = {{.max_frames = 1}}, .slots = 2, .held = true});
  guest client(rig);
  client.submit(1);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  client.submit(2);
  client.submit(3);
  client.send_control(message_type::cancel, 3);
  const raw_message queued = client.next();
  expect_error(queued, status::cancelled, 3);
  EXPECT_EQ(queued.json().at("step"), "queued");
  client.send_control(message_type::cancel, 1);
  const raw_message executing = client.next();
  expect_error(executing, status::cancelled, 1);
  EXPECT_EQ(executing.json().at("step"), "executing");
  rig.device.let_run();
  EXPECT_EQ(client.next().header.request_id, 2U);
  EXPECT_TRUE(client.has_nothing());
}

TEST(MessageHandler, AnswersACancelOfAFinishedRequestWithItsReply) {
  shard_rig rig;
  guest client(rig);
  const std::string payload = client.submit(1);
  expect_result(client.next(), 1, payload);
  client.send_control(message_type::cancel, 1);
  expect_result(client.next(), 1, payload);
  client.send_control(message_type::cancel, 2);
  expect_error(client.next(), status::rejected, 2);
}

TEST(MessageHandler, SendsNothingMoreToWhoSaidGoodbye) {
  shard_rig rig({.held = true});
  guest client(rig);
  client.submit(1);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  client.send_control(message_type::goodbye, 0);
  client.submit(2);
  expect_error(client.next(), status::hello_required, 2);
  rig.device.let_run();
  guest other(rig);
  nlohmann::json status = other.status();
  while (status.at("requests").at("in_flight") != 0) {
    status = other.status();
  }
  EXPECT_EQ(status.at("replies").at("undeliverable"), 1);
}

TEST(MessageHandler, TakesNoMoreClientsThanItMayAndThosePlacesAgainThatAreFree) {
  shard_rig rig({.max_clients = 2});
  guest first(rig);
  guest second(rig);
  raw_peer third(rig.endpoint());
  third.send_control(message_type::hello, 1, wire::encode(wire::hello{"third", "0"}));
  expect_error(third.receive().value(), status::too_many_clients, 1);
  first.send_control(message_type::goodbye, 0);
  EXPECT_TRUE(first.has_nothing()) << "the daemon has read the GOODBYE";
  EXPECT_EQ(third.hello().pipelines.size(), 1U);
  EXPECT_EQ(second.hello().pipelines.size(), 1U) << "a client that is known may say HELLO again";
}

TEST(MessageHandler, TakesAClientBackOverAnotherConnectionWithItsRequestsAndReplies) {
  shard_rig rig({.held = true});
  guest before(rig);
  EXPECT_FALSE(before.welcome.resumed);
  const std::string payload = before.submit(1);
  ASSERT_TRUE(rig.device.wait_for_pending(1));
  guest after(rig);
  const wire::welcome back = after.hello(0, before.welcome.resume);
  EXPECT_TRUE(back.resumed);
  EXPECT_EQ(back.resume, before.welcome.resume);
  EXPECT_NE(back.resume, after.welcome.resume);
  after.submit(1);
  EXPECT_TRUE(after.has_nothing()) << "the repeat of a request in flight is ignored";
  rig.device.let_run();
  expect_result(after.next(), 1, payload);
  after.submit(1);
  expect_result(after.next(), 1, payload);
  EXPECT_EQ(after.status().at("repeats").at("answered"), 1);
  EXPECT_EQ(after.status().at("clients").size(), 1U) << "the place that the connection had before is free";
  before.submit(2);
  expect_error(before.next(), status::hello_required, 2);
}

TEST(MessageHandler, GivesWhoShowsAnUnknownTokenANewPlace) {
  shard_rig rig;
  guest client(rig);
  raw_peer stranger(rig.endpoint());
  const std::string token(32, 'a');
  const wire::welcome given = stranger.hello(0, token);
  EXPECT_FALSE(given.resumed);
  EXPECT_EQ(given.resume.size(), 32U);
  EXPECT_NE(given.resume, token);
  EXPECT_NE(given.resume, client.welcome.resume);
}

TEST(MessageHandler, KeepsPlaceAndTokenOfWhoSaysHelloAgain) {
  shard_rig rig;
  guest client(rig);
  const wire::welcome again = client.hello();
  EXPECT_EQ(again.resume, client.welcome.resume);
  EXPECT_TRUE(again.resumed);
  const wire::welcome with_unknown_token = client.hello(0, std::string(32, 'a'));
  EXPECT_EQ(with_unknown_token.resume, client.welcome.resume);
}

TEST(MessageHandler, TakesNobodyBackWhoSaidGoodbye) {
  shard_rig rig;
  guest client(rig);
  client.send_control(message_type::goodbye, 0);
  const wire::welcome again = client.hello(0, client.welcome.resume);
  EXPECT_FALSE(again.resumed);
  EXPECT_NE(again.resume, client.welcome.resume);
}

/// Says HELLO until there is a place: libzmq may not have seen yet that others have gone.
void get_place(raw_peer& client) {
  message_type answer = message_type::error;
  while (answer != message_type::welcome) {
    client.send_control(message_type::hello, 1, wire::encode(wire::hello{"raw", "0"}));
    answer = client.receive().value().header.type;
  }
}

TEST(MessageHandler, GivesPlacesOfClientsWithoutAConnectionToOthersAtOnce) {
  shard_rig rig({.max_clients = 3});
  guest stays(rig);
  for (int turn = 0; turn < 10; ++turn) {
    raw_peer leaves_without_a_word(rig.endpoint());
    get_place(leaves_without_a_word);
  }
  const std::string payload = stays.submit(1);
  expect_result(stays.next(), 1, payload);
  EXPECT_GE(stays.status().at("places").at("lost"), 8);
}

TEST(MessageHandler, KeepsPlacesOfClientsThatAreSilentAndConnected) {
  shard_rig rig({.max_clients = 2});
  guest first(rig);
  guest second(rig);
  raw_peer third(rig.endpoint());
  for (int turn = 0; turn < 3; ++turn) {
    third.send_control(message_type::hello, 1, wire::encode(wire::hello{"third", "0"}));
    expect_error(third.receive().value(), status::too_many_clients, 1);
    third.send_control(message_type::ping, 2);
    EXPECT_EQ(third.receive().value().header.type, message_type::pong) << "a PING needs no place";
  }
  for (guest* const each : {&first, &second}) {
    const std::string payload = each->submit(1);
    expect_result(each->next(), 1, payload);
  }
}

TEST(MessageHandler, GivesSessionPlacesOfClientsWithoutAConnectionToOthersAtOnce) {
  shard_rig rig({.plans = {{.max_frames = 4, .keeps_state = true}, {}}, .max_clients = 8, .max_sessions = 2});
  for (int turn = 0; turn < 5; ++turn) {
    guest leaves_without_a_word(rig);
    for (const char* const name : {"one", "two"}) {
      // Until libzmq has seen that the one before has gone.
      while (leaves_without_a_word.open(name).header.type != message_type::session_opened) {
        std::this_thread::yield();
      }
    }
  }
}

TEST(MessageHandler, IsNotDisturbedByWhatOthersSend) {
  shard_rig rig;
  guest good(rig);
  raw_peer bad(rig.endpoint());
  bad.send({""});
  bad.send({"PNSK"});
  bad.send({std::string(64, '\xFF'), "x"});
  bad.send(std::vector<std::string>(500, "part"));
  const std::string payload = good.submit(1);
  expect_result(good.next(), 1, payload);
  for (int refusal = 0; refusal < 4; ++refusal) {
    expect_error(bad.receive().value(), status::malformed, 0);
  }
  EXPECT_TRUE(good.status().at("balanced").get<bool>());
}

// Payloads behind their headers, on their way in and out.

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
