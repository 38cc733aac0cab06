#include "proto/control.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <gtest/gtest.h>

#include "proto/message.hpp"

namespace penstock::wire {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text});
}

welcome example() {
  welcome body;
  body.server = "penstockd 0.1.0";
  body.instance = "i";
  body.credit_requests = 1;
  body.credit_bytes = UINT64_MAX;
  body.max_request_bytes = 2;
  body.pipelines.push_back({4'294'967'295U, "p", 16, {"input", "u8", "cu8", {512, 2}, true, ""}, {}});
  body.pipelines.front().input.axis = 1;
  body.pipelines.front().outputs.push_back({"psd", "f32", "f32", {512}, true, "power_spectrum", 256});
  body.pipelines.front().keeps_state = true;
  body.pipelines.front().ordered = false;
  body.pipelines.front().period = UINT64_MAX;
  body.answering = 1;
  body.shard = UINT32_MAX;
  body.shards = {{"tcp://*:1", "ipc://a"}, {}};
  body.shared_bytes = UINT64_MAX;
  body.quarantined = {{"q", "its kernel takes the device with it"}};
  return body;
}

TEST(Control, WelcomeComesBackWithEveryField) {
  const auto out = decode_welcome(bytes_of(encode(example())));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->server, "penstockd 0.1.0");
  EXPECT_EQ(out->instance, "i");
  EXPECT_EQ(out->credit_requests, 1U);
  EXPECT_EQ(out->credit_bytes, UINT64_MAX);
  EXPECT_EQ(out->max_request_bytes, 2U);
  ASSERT_EQ(out->pipelines.size(), 1U);
  EXPECT_EQ(out->pipelines[0].id, UINT32_MAX);
  EXPECT_EQ(out->pipelines[0].max_frames, 16U);
  EXPECT_EQ(out->pipelines[0].input.element, "cu8");
  EXPECT_EQ(out->pipelines[0].input.shape, (std::vector<std::int64_t>{512, 2}));
  EXPECT_EQ(out->pipelines[0].input.axis, 1U);
  ASSERT_EQ(out->pipelines[0].outputs.size(), 1U);
  EXPECT_EQ(out->pipelines[0].outputs[0].op, "power_spectrum");
  EXPECT_TRUE(out->pipelines[0].outputs[0].variable);
  EXPECT_EQ(out->pipelines[0].outputs[0].steps, 256U);
  EXPECT_TRUE(out->pipelines[0].keeps_state);
  EXPECT_FALSE(out->pipelines[0].ordered);
  EXPECT_EQ(out->pipelines[0].period, UINT64_MAX);
  EXPECT_EQ(out->answering, 1U);
  EXPECT_EQ(out->shard, UINT32_MAX);
  EXPECT_EQ(out->shards, example().shards);
  EXPECT_EQ(out->shared_bytes, UINT64_MAX);
  ASSERT_EQ(out->quarantined.size(), 1U);
  EXPECT_EQ(out->quarantined[0].name, "q");
  EXPECT_EQ(out->quarantined[0].reason, "its kernel takes the device with it");
}

TEST(Control, WelcomeWithAnAxisThatIsNoneIsRefused) {
  welcome body = example();
  body.pipelines.front().input.axis = 2;
  EXPECT_FALSE(decode_welcome(bytes_of(encode(body))));
}

TEST(Control, WelcomeOfADaemonBeforeSessionsShardsAndSharedMemoryStandsForNone) {
  const auto out = decode_welcome(bytes_of(
      R"({"server":"s","instance":"i","credit_requests":1,"credit_bytes":1,"max_request_bytes":1,"pipelines":[{"id":0,)"
      R"("name":"p","max_frames":1,"input":{"name":"input","dtype":"u8","element":"u8","shape":[4],"variable":false,)"
      R"("op":""},"outputs":[]}]})"));
  ASSERT_TRUE(out);
  EXPECT_FALSE(out->pipelines.at(0).keeps_state);
  EXPECT_TRUE(out->pipelines.at(0).ordered);
  EXPECT_EQ(out->pipelines.at(0).period, 1U);
  EXPECT_EQ(out->pipelines.at(0).input.steps, 1U);
  EXPECT_EQ(out->answering, 0U);
  EXPECT_EQ(out->shard, 0U);
  EXPECT_TRUE(out->shards.empty());
  EXPECT_EQ(out->shared_bytes, 0U);
}

TEST(Control, SharedMemoryBodiesComeBackWithEveryField) {
  const auto wanted = decode_attach(bytes_of(encode(attach{UINT64_MAX})));
  ASSERT_TRUE(wanted);
  EXPECT_EQ(wanted->bytes, UINT64_MAX);
  const auto found = decode_attached(bytes_of(encode(attached{"@memory", std::string(32, 'f')})));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->socket, "@memory");
  EXPECT_EQ(found->ticket, std::string(32, 'f'));
}

TEST(Control, AnErrorHoldsMemoryOnlyWhereItSaysSo) {
  error_body body{"late", "executing", "", "", true};
  const auto holding = decode_error_body(bytes_of(encode(body)));
  ASSERT_TRUE(holding);
  EXPECT_TRUE(holding->holds);
  body.holds = false;
  const std::string text = encode(body);
  EXPECT_EQ(text.find("holds"), std::string::npos) << "older readers get what they always got";
  const auto free = decode_error_body(bytes_of(text));
  ASSERT_TRUE(free);
  EXPECT_FALSE(free->holds);
}

TEST(Control, SessionBodiesComeBackWithEveryField) {
  const auto open = decode_open_session(bytes_of(encode(open_session{UINT32_MAX, std::string(64, 'n')})));
  ASSERT_TRUE(open);
  EXPECT_EQ(open->pipeline, UINT32_MAX);
  EXPECT_EQ(open->name, std::string(64, 'n'));
  const auto opened = decode_session_opened(bytes_of(encode(session_opened{UINT32_MAX, UINT64_MAX})));
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->session, UINT32_MAX);
  EXPECT_EQ(opened->next_sequence, UINT64_MAX);
}

TEST(Control, SubscriptionBodiesComeBackWithEveryField) {
  const auto asked = decode_subscribe(
      bytes_of(encode(subscribe{{"spectrum", "levels"}, {"antenna*", ""}, {"psd"}, UINT64_MAX, true})));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->pipelines, (std::vector<std::string>{"spectrum", "levels"}));
  EXPECT_EQ(asked->sessions, (std::vector<std::string>{"antenna*", ""}));
  EXPECT_EQ(asked->outputs, (std::vector<std::string>{"psd"}));
  EXPECT_EQ(asked->queue_bytes, UINT64_MAX);
  EXPECT_TRUE(asked->requests);
  const auto granted = decode_subscribed(bytes_of(encode(subscribed{UINT64_MAX, UINT64_MAX})));
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->queue_bytes, UINT64_MAX);
  EXPECT_EQ(granted->next_sequence, UINT64_MAX);
  const auto ended = decode_publisher(bytes_of(encode(publisher{.session = UINT32_MAX, .ended = true})));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->session, UINT32_MAX);
  EXPECT_TRUE(ended->ended);
  EXPECT_FALSE(ended->source);
  const auto source = decode_publisher(bytes_of(encode(publisher{.session = 1, .source = true})));
  ASSERT_TRUE(source);
  EXPECT_TRUE(source->source);
}

TEST(Control, NumbersComeBackExactly) {
  for (const double value : {0.1, -1.0 / 3.0, 5e-324, 1.7976931348623157e308, -0.0, 16777217.0}) {
    const auto asked = decode_set_values(bytes_of(encode(set_values{{{"gain", "a", value}, {"gain", "b", {}}}})));
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->values.at(0).value, value);
    EXPECT_FALSE(asked->values.at(1).value);
    const auto told = decode_values(bytes_of(encode(values_report{{{"gain", "a", value, true}}})));
    ASSERT_TRUE(told);
    EXPECT_EQ(told->values.at(0).value, value);
    EXPECT_TRUE(told->values.at(0).own);
  }
}

TEST(Control, ASetOfFifteenNumbersFits) {
  const auto with = [](std::size_t count) {
    return decode_set_values(bytes_of(encode(set_values{std::vector<number_setting>(count, {"s", "n", 1.5})})));
  };
  EXPECT_TRUE(with(15));
  EXPECT_FALSE(with(16));
}

TEST(Control, SkipsUnknownKeys) {
  const auto out = decode_hello(bytes_of(R"({"later":[{"x":1}],"client":"c","version":"v"})"));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->client, "c");
}

TEST(Control, RefusesABodyOverTheLimit) {
  const std::string hello = R"({"client":"c","version":"v"})";
  EXPECT_TRUE(decode_hello(bytes_of(hello + std::string(max_request_body_bytes - hello.size(), ' '))));
  EXPECT_FALSE(decode_hello(bytes_of(hello + std::string(max_request_body_bytes - hello.size() + 1, ' '))));
  const std::string error = encode(error_body{});
  EXPECT_TRUE(decode_error_body(bytes_of(error + std::string(max_body_bytes - error.size(), ' '))));
  EXPECT_FALSE(decode_error_body(bytes_of(error + std::string(max_body_bytes - error.size() + 1, ' '))));
}

TEST(Control, WhatAClientAsksWithIsShorterThanWhatADaemonSays) {
  for (const message_type asks : {message_type::hello, message_type::open_session, message_type::attach,
                                  message_type::subscribe, message_type::set_values}) {
    EXPECT_EQ(max_body_bytes_of(asks), max_request_body_bytes);
  }
  EXPECT_EQ(max_body_bytes_of(message_type::welcome), max_body_bytes);
}

/// HELLO with an unknown key, whose value that is.
std::string hello_with(const std::string& value) {
  return R"({"client":"c","version":"v","later":)" + value + "}";
}

TEST(Control, RefusesNestingBeyondTheBound) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(decode_hello(bytes_of(hello_with(nested(request_bounds.depth - 1)))));
  EXPECT_FALSE(decode_hello(bytes_of(hello_with(nested(request_bounds.depth)))));
  EXPECT_TRUE(is_answer(bytes_of(hello_with(nested(answer_bounds.depth - 1)))));
  EXPECT_FALSE(is_answer(bytes_of(hello_with(nested(answer_bounds.depth)))));
}

TEST(Control, RefusesMoreValuesThanTheBound) {
  // The object itself, three values of it, and the numbers.
  const auto numbers = [](std::size_t count) {
    std::string text = "[0";
    for (; count > 1; --count) {
      text += ",0";
    }
    return text + "]";
  };
  EXPECT_TRUE(decode_hello(bytes_of(hello_with(numbers(request_bounds.values - 4)))));
  EXPECT_FALSE(decode_hello(bytes_of(hello_with(numbers(request_bounds.values - 3)))));
  EXPECT_TRUE(is_answer(bytes_of(numbers(2).insert(0, R"({"a":)") + "}")));
  EXPECT_FALSE(is_answer(bytes_of("[0]"))) << "an answer is an object";
}

TEST(Control, OfAKeyThatComesTwiceTheLastCounts) {
  const auto out = decode_hello(bytes_of(R"({"client":{"x":[1]},"version":"v","client":"c"})"));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->client, "c");
}

/// An ERROR with that many keys of its own, each eight bytes.
std::string error_with_keys(std::size_t count) {
  std::string body = encode(error_body{});
  body.pop_back();
  for (std::size_t key = 0; key < count; ++key) {
    const std::string number = std::to_string(1000 + key);
    body += ",\"" + number + "\":0";
  }
  return body + "}";
}

/// The processor's time for one reading.
std::chrono::nanoseconds time_to_decode(const std::string& body) {
  const auto worked = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  };
  const std::chrono::nanoseconds begin = worked();
  EXPECT_TRUE(decode_error_body(bytes_of(body)));
  return worked() - begin;
}

TEST(Control, IsReadInATimeThatGrowsWithItsBytesAlone) {
  // Sixteen times the keys took 200 times as long when each was compared with all before it.
  const std::string small = error_with_keys(400);
  const std::string large = error_with_keys(6400);
  std::chrono::nanoseconds few = std::chrono::hours{1};
  std::chrono::nanoseconds many = std::chrono::hours{1};
  for (int round = 0; round < 9; ++round) {
    few = std::min(few, time_to_decode(small));
    many = std::min(many, time_to_decode(large));
  }
  EXPECT_LT(many, few * 16 * 5) << few.count() << " ns and " << many.count() << " ns";
}

TEST(Control, AHelloOfManyKeysIsRefusedBeforeItIsRead) {
  const std::string body = error_with_keys(6400);
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 300; ++round) {
    ASSERT_FALSE(decode_hello(bytes_of(body)));
  }
  // Read, each took 125 ms.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{3});
}

TEST(Control, RefusesNothingAtAll) {
  EXPECT_FALSE(decode_hello({}));
  EXPECT_FALSE(decode_welcome({}));
  EXPECT_FALSE(decode_error_body({}));
  EXPECT_FALSE(decode_open_session({}));
  EXPECT_FALSE(decode_session_opened({}));
  EXPECT_FALSE(decode_attach({}));
  EXPECT_FALSE(decode_attached({}));
}

TEST(Control, SurvivesTheDeepestNesting) {
  EXPECT_FALSE(decode_hello(bytes_of(std::string(max_body_bytes, '['))));
}

TEST(Control, RefusesAShapeThatNoFrameCanHave) {
  for (const char* const shape : {"[1,1,1,1,1,1,1,1]", "[-1]", "[1.0]", "[\"1\"]", "[9223372036854775808]", "7"}) {
    std::string body = encode(example());
    body.replace(body.find("[512,2]"), 7, shape);
    EXPECT_FALSE(decode_welcome(bytes_of(body))) << shape;
  }
}

TEST(Control, ClipsALongClientNameBetweenCharacters) {
  const auto out = decode_hello(bytes_of(encode(hello{std::string(63, 'x') + "\u00e9", "v"})));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->client, std::string(63, 'x'));
}

TEST(Control, AnErrorThatQuotesAnythingFitsABody) {
  const std::string worst(100'000, '\x01');
  const std::string body = encode(error_body{worst, worst, worst, worst});
  EXPECT_LE(body.size(), max_body_bytes);
  EXPECT_TRUE(decode_error_body(bytes_of(body)));
}

TEST(Control, ReplacesBytesThatAreNotText) {
  const auto out = decode_error_body(bytes_of(encode(error_body{"no pipeline \xFF", "", "", ""})));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->reason, "no pipeline \uFFFD");
}

struct misread_request {
  message_type type;
  std::string body;
  const char* fault;
};

TEST(Control, FaultOfARequestNamesTheKeyAndWhatIsWrongWithIt) {
  const std::string name(65, 'n');
  for (const misread_request& each :
       {misread_request{message_type::hello, R"({"client":"c"})", "key 'version' is missing"},
        {message_type::hello, R"({"client":"c","version":)" + ("\"" + name) + "\"}",
         "key 'version' has 65 bytes; at most 64 are taken"},
        {message_type::hello, R"({"client":"a\nb","version":"1"})", "key 'client' has a control character"},
        {message_type::hello, R"({"client":7,"version":"1"})", "key 'client' is no text"},
        {message_type::hello, R"({"client":"c","version":"1","inline_bytes":-5})",
         "key 'inline_bytes' is -5; a whole number from 0 is wanted"},
        {message_type::hello, R"({"client":"c","version":"1","resume":"ABC"})",
         "key 'resume' is not of 32 hexadecimal digits in small letters"},
        {message_type::hello, "", "it is no JSON"},
        {message_type::hello, "[]", "it is no JSON object"},
        {message_type::hello, "[[[[[[[[[[]]]]]]]]]]", "it is nested more than 8 deep, or has more than 64 values"},
        {message_type::hello, std::string(5000, ' '), "it has 5000 bytes; at most 4096 are read"},
        {message_type::open_session, R"({"pipeline":4294967296,"name":""})",
         "key 'pipeline' is 4294967296; at most 4294967295 fits"},
        {message_type::attach, R"({"bytes":"1 MiB"})", "key 'bytes' is no number"},
        {message_type::attach, R"({"bytes":1,"device":1})", "key 'device' is neither true nor false"},
        {message_type::subscribe, R"({"pipelines":[]})", "key 'pipelines' names none"},
        {message_type::set_values, R"({"values":[]})",
         "key 'values' is no list of objects with a stage, a name and a number or null as their value"},
        {message_type::set_values, R"({"values":[{"stage":"g","name":"a","value":"1"}]})",
         "key 'values' is no list of objects with a stage, a name and a number or null as their value"},
        {message_type::subscribe, R"({"pipelines":"a"})", "key 'pipelines' is no list of texts"},
        {message_type::subscribe, R"({"pipelines":["a"],"sessions":["\u0007"]})",
         "key 'sessions' has a text that has a control character"}}) {
    EXPECT_EQ(fault_of_request(each.type, bytes_of(each.body)), each.fault) << each.body;
  }
}

TEST(Control, GoodRequestHasNoFault) {
  EXPECT_EQ(fault_of_request(message_type::hello, bytes_of(encode(hello{.client = "c", .version = "1"}))), "");
  EXPECT_EQ(fault_of_request(message_type::open_session, bytes_of(encode(open_session{.pipeline = 1, .name = "n"}))),
            "");
  EXPECT_EQ(fault_of_request(message_type::attach, bytes_of(encode(attach{.bytes = 1}))), "");
  EXPECT_EQ(fault_of_request(message_type::subscribe, bytes_of(encode(subscribe{.pipelines = {"a"}}))), "");
}

}  // namespace
}  // namespace penstock::wire
