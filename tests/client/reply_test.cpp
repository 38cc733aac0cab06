#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <ostream>
#include <span>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <penstock/client.hpp>
#include <zmq.h>

#include "proto/message.hpp"
#include "tests/client/client_fixtures.hpp"

namespace penstock::test {
namespace {

constexpr wire::message_type nothing{};

std::atomic<wire::message_type> held_type{nothing};  // writer: the test; readers: all threads that send

wire::message_type type_of(zmq_msg_t* message) {
  wire::message_header header;
  const std::span bytes{static_cast<const std::byte*>(zmq_msg_data(message)), zmq_msg_size(message)};
  return wire::decode(bytes, header) == wire::decode_error::none ? header.type : nothing;
}

/// Blocks every thread that sends a message of that type, right after libzmq has taken the message, until `let_go`.
/// One at a time.
class held_send {
 public:
  explicit held_send(wire::message_type type) noexcept { held_type = type; }
  held_send(const held_send&) = delete;
  held_send& operator=(const held_send&) = delete;
  ~held_send() { let_go(); }

  /// Thread: any.
  void let_go() noexcept {
    held_type = nothing;
    held_type.notify_all();
  }
};

}  // namespace
}  // namespace penstock::test

/// Replaces libzmq's function, which it calls.
extern "C" __attribute__((visibility("default"))) int zmq_msg_send(zmq_msg_t* message, void* socket, int flags) {
  using penstock::test::held_type;
  using penstock::test::nothing;
  static const auto libzmqs = reinterpret_cast<int (*)(zmq_msg_t*, void*, int)>(dlsym(RTLD_NEXT, "zmq_msg_send"));
  const auto type = held_type.load() == nothing ? nothing : penstock::test::type_of(message);
  const int sent = libzmqs(message, socket, flags);
  if (sent >= 0 && type != nothing) {
    held_type.wait(type);
  }
  return sent;
}

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::message_type;

class Reply : public client_fixture {
 protected:
  std::future<result> submit(std::uint8_t first = 1, std::optional<std::chrono::nanoseconds> timeout = {}) {
    return submit_frames(1, first, timeout);
  }
};

TEST_F(Reply, HelloNamesTheClient) {
  client_options options = quick_options();
  options.url = daemon_.url();
  options.name = "tester";
  auto connecting = std::async(std::launch::async, [&] { return std::make_unique<client>(options); });
  const received hello = daemon_.greet();
  client_ = connecting.get();
  EXPECT_THAT(hello.parts.at(1), HasSubstr("\"tester\""));
  EXPECT_EQ(token_of(hello), "");
}

TEST_F(Reply, WelcomeTellsServerAndPipelines) {
  connect();
  EXPECT_EQ(client_->server().name, "scripted 1");
  EXPECT_EQ(client_->server().credit_requests, 64U);
  const auto pipelines = client_->pipelines();
  ASSERT_EQ(pipelines.size(), 1U);
  EXPECT_EQ(pipelines[0].name, "double");
  EXPECT_EQ(pipelines[0].input.text(), "u8[4]");
  EXPECT_EQ(pipelines[0].outputs[1].op, "moments");
}

TEST_F(Reply, SubmitCarriesPipelineFramesShapeAndBytes) {
  connect();
  const auto bytes = counting_bytes(3);
  client::request request;
  request.bytes = bytes;
  request.frames = 3;
  request.timeout = 5s;
  request.trace_id.fill(std::byte{7});
  auto future = client_->submit("double", request);
  const received submit = daemon_.expect(message_type::submit);
  EXPECT_EQ(submit.header.pipeline, 3U);
  EXPECT_EQ(submit.header.frames, 3U);
  EXPECT_EQ(submit.header.trace_id, request.trace_id);
  EXPECT_GT(submit.header.timeout_ns, 0U);
  EXPECT_LE(submit.header.timeout_ns, 5'000'000'000U);
  wire::tensor_header tensor;
  ASSERT_EQ(wire::decode_tensor(std::as_bytes(std::span{submit.parts[0]}), submit.header, 0, tensor),
            wire::decode_error::none);
  EXPECT_EQ(tensor.type, wire::uint8_type);
  EXPECT_THAT(tensor.extents(), ElementsAre(3, 4));
  EXPECT_EQ(submit.parts.at(1), std::string("\1\2\3\4\5\6\7\10\11\12\13\14", 12));
  daemon_.result(submit);
  future.get();
}

TEST_F(Reply, AccountGoesWithTheRequestAndComesBackWithTheResult) {
  connect();
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  request.account = sample_account{.index = -5,
                                   .time_ns = 123,
                                   .lost_before = 7,
                                   .epoch = 3,
                                   .filled = 2,
                                   .quality = time_quality::disciplined,
                                   .flags = sample_account::index_known | sample_account::has_filled};
  auto future = client_->submit("double", request);
  const received submit = daemon_.expect(message_type::submit);
  EXPECT_EQ(submit.header.header_len, wire::account_header_bytes);
  EXPECT_EQ(payload_of(submit), std::string("\1\2\3\4"));
  daemon_.result(submit);
  const result got = future.get();
  EXPECT_EQ(got.account(), request.account);
  EXPECT_EQ(got.output("twice").index, -5);
  EXPECT_EQ(got.output("sum").index, -105);
}

TEST_F(Reply, WithoutAnAccountTheHeaderHasNoneEither) {
  connect();
  auto future = submit();
  const received submit = daemon_.expect(message_type::submit);
  EXPECT_EQ(submit.header.header_len, wire::header_bytes);
  daemon_.result(submit);
  EXPECT_FALSE(future.get().account());
}

TEST_F(Reply, AccountWithoutThePlacesOfAllOutputsIsMalformed) {
  connect();
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  request.account = sample_account::at(5);
  auto future = client_->submit("double", request);
  const received submit = daemon_.expect(message_type::submit);
  std::vector<std::string> parts = result_parts(submit);
  parts[0].erase(wire::account_header_bytes_of(1), sizeof(std::int64_t));
  parts[0][6] = static_cast<char>(wire::account_header_bytes_of(1));
  daemon_.send(submit.peer, parts);
  daemon_.result(submit);
  EXPECT_EQ(future.get().output("twice").index, 5);
  EXPECT_EQ(client_->counters().malformed_replies, 1U);
}

TEST_F(Reply, ResultHasEveryOutputWithNameShapeAndBytes) {
  connect();
  auto future = submit(10);
  daemon_.result(daemon_.expect(message_type::submit));
  const result got = future.get();
  EXPECT_EQ(got.frames(), 1U);
  EXPECT_GT(got.latency(), 0ns);
  ASSERT_EQ(got.outputs().size(), 2U);
  EXPECT_EQ(got.outputs()[0].name, "twice");
  EXPECT_EQ(got.outputs()[0].dtype, "i16");
  EXPECT_THAT(got.outputs()[0].shape(), ElementsAre(1, 4));
  EXPECT_THAT(got.output("twice").to_vector<std::int16_t>(), ElementsAre(20, 22, 24, 26));
  EXPECT_THAT(got.output("sum").to_vector<float>(), ElementsAre(46.0F));
  try {
    (void)got.output("none");
    ADD_FAILURE() << "there is no such output";
  } catch (const std::out_of_range& wrong) {
    EXPECT_STREQ(wrong.what(), "the result has no output \"none\"; it has twice, sum");
  }
}

TEST_F(Reply, ResultOutlivesItsClient) {
  connect();
  auto future = submit(10);
  daemon_.result(daemon_.expect(message_type::submit));
  const result got = future.get();
  client_.reset();
  EXPECT_THAT(got.output("twice").to_vector<std::int16_t>(), ElementsAre(20, 22, 24, 26));
}

TEST_F(Reply, ErrorCarriesStatusAndDetails) {
  connect();
  auto future = submit();
  daemon_.error(daemon_.expect(message_type::submit), wire::status::failed, {"it broke", "", "psd", "cudaErrorOops"});
  const request_error error = error_of(future);
  EXPECT_EQ(error.kind(), error_kind::failed);
  EXPECT_EQ(error.status_name(), "FAILED");
  EXPECT_EQ(error.details().stage, "psd");
  EXPECT_STREQ(error.what(), "FAILED: it broke, in stage psd, device error cudaErrorOops");
}

TEST_F(Reply, UnknownReasonIsTakenForItsKind) {
  connect();
  auto future = submit();
  daemon_.error(daemon_.expect(message_type::submit), static_cast<wire::status>(0x01FE));
  EXPECT_EQ(error_of(future).kind(), error_kind::rejected);
}

TEST_F(Reply, LateDuplicateReplyCompletesNothing) {
  connect();
  std::atomic<int> completions{0};
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  client_->submit("double", request, [&](outcome&&) { ++completions; });
  const received submit = daemon_.expect(message_type::submit);
  daemon_.result(submit);
  daemon_.result(submit);
  daemon_.error(submit, wire::status::expired);
  settle();
  EXPECT_EQ(completions, 1);
  EXPECT_EQ(client_->counters().unmatched_replies, 2U);
  EXPECT_EQ(client_->counters().results, 1U);
}

TEST_F(Reply, CancelAsksTheDaemonAndEndsOnce) {
  connect();
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  request.id = client_->reserve_id();
  auto future = client_->submit("double", request);
  const received submit = daemon_.expect(message_type::submit);
  EXPECT_EQ(submit.header.request_id, request.id);
  client_->cancel(request.id);
  const received cancel = daemon_.expect(message_type::cancel);
  EXPECT_EQ(cancel.header.request_id, request.id);
  daemon_.error(submit, wire::status::cancelled, {"cancelled", "queued", "", ""});
  const request_error error = error_of(future);
  EXPECT_EQ(error.kind(), error_kind::cancelled);
  EXPECT_EQ(error.details().step, "queued");
}

TEST_F(Reply, CancelOfWhatTheDaemonDoesNotKnowEndsAsCancelled) {
  connect();
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  request.id = client_->reserve_id();
  auto future = client_->submit("double", request);
  (void)daemon_.expect(message_type::submit);
  client_->cancel(request.id);
  daemon_.error(daemon_.expect(message_type::cancel), wire::status::rejected);
  EXPECT_EQ(error_of(future).kind(), error_kind::cancelled);
}

TEST_F(Reply, CancelOfNothingSendsNothing) {
  connect();
  client_->cancel(12345);
  auto future = submit();
  daemon_.result(daemon_.expect(message_type::submit));
  future.get();
}

TEST_F(Reply, LentBytesAreReleasedOnce) {
  connect();
  const auto bytes = counting_bytes(8);
  std::promise<void> released;
  client::request request;
  request.bytes = bytes;
  request.frames = 8;
  request.release = [&released] { released.set_value(); };  // throws the second time
  auto future = client_->submit("double", request);
  request.release = nullptr;
  const received submit = daemon_.expect(message_type::submit);
  EXPECT_EQ(submit.parts.at(1).size(), 32U);
  daemon_.result(submit);
  future.get();
  released.get_future().wait();
}

TEST_F(Reply, CompletionMaySubmitTheNext) {
  connect();
  const auto bytes = counting_bytes(1);
  client::request request;
  request.bytes = bytes;
  std::promise<void> second;
  client_->submit("double", request,
                  [&](outcome&&) { client_->submit("double", request, [&](outcome&&) { second.set_value(); }); });
  daemon_.result(daemon_.expect(message_type::submit));
  daemon_.result(daemon_.expect(message_type::submit));
  second.get_future().wait();
}

TEST_F(Reply, StatusIsTheDaemonsJson) {
  connect();
  auto asked = std::async(std::launch::async, [this] { return client_->status_json(20s); });
  const received question = daemon_.expect(message_type::get_status);
  wire::message_header header;
  header.type = message_type::status_report;
  header.request_id = question.header.request_id;
  daemon_.send(question.peer, {header_part(header), R"({"requests":{}})"});
  EXPECT_EQ(asked.get(), R"({"requests":{}})");
}

TEST_F(Reply, PingCountsFromBeforeItWasSentWhateverHeldTheSenderBehindIt) {
  connect();
  held_send behind{message_type::ping};
  auto pinged = std::async(std::launch::async, [this] { return client_->ping(20s); });
  const received ping = daemon_.expect(message_type::ping);
  const auto arrived = std::chrono::steady_clock::now();
  daemon_.answer(ping, message_type::pong);
  std::this_thread::sleep_until(arrived + 50ms);  // how long it is held, and nothing waits for it
  const auto on_the_way = std::chrono::steady_clock::now() - arrived;
  behind.let_go();
  EXPECT_GE(pinged.get(), on_the_way);
}

TEST_F(Reply, PingExpiresWhenNobodyAnswers) {
  connect();
  try {
    (void)client_->ping(5ms);
    FAIL() << "a PONG came from nowhere";
  } catch (const request_error& error) {
    EXPECT_EQ(error.kind(), error_kind::expired);
  }
}

TEST_F(Reply, EveryRequestOfManyThreadsEndsOnce) {
  constexpr int threads = 4;
  constexpr int each = 200;
  daemon_.offer().credit_requests = 8;
  connect();
  std::atomic<int> right{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < threads; ++caller) {
    callers.emplace_back([this, &right, caller] {
      for (int turn = 0; turn < each; ++turn) {
        const auto first = static_cast<std::uint8_t>(caller * 60 + turn % 50);
        auto future = submit(first);
        right += future.get().output("twice").to_vector<std::int16_t>().front() == 2 * first ? 1 : 0;
      }
    });
  }
  for (int reply = 0; reply < threads * each; ++reply) {
    daemon_.result(daemon_.expect(message_type::submit));
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(right, threads * each);
  EXPECT_EQ(client_->counters().submitted, client_->counters().results);
}

}  // namespace

namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::message_type;

/// Payloads behind the headers in one part.
class OnePart : public client_fixture {
 protected:
  std::future<result> submit() { return submit_frames(1); }
};

TEST_F(OnePart, SmallPayloadsGoInOnePartToADaemonThatTakesThem) {
  daemon_.offer().inline_bytes = 8;
  client_options options = quick_options();
  options.url = daemon_.url();
  auto connecting = std::async(std::launch::async, [&] { return std::make_unique<client>(options); });
  EXPECT_THAT(daemon_.greet().parts.at(1), HasSubstr("\"inline_bytes\":4096"));
  client_ = connecting.get();
  const auto bytes = counting_bytes(3);
  for (const std::uint32_t frames : {1U, 2U, 3U}) {
    client::request request;
    request.bytes = std::span{bytes}.first(4 * frames);
    request.frames = frames;
    auto future = client_->submit("double", request);
    const received submit = daemon_.expect(message_type::submit);
    EXPECT_EQ(submit.parts.size(), frames <= 2 ? 1U : 2U) << frames;
    EXPECT_EQ(submit.parts.at(0).size(), frames <= 2 ? wire::part_bytes(1) + 4 * frames : wire::part_bytes(1));
    EXPECT_EQ(payload_of(submit), std::string("\1\2\3\4\5\6\7\10\11\12\13\14", 4 * frames));
    daemon_.send(submit.peer, in_one_part(result_parts(submit)));
    const result got = future.get();
    EXPECT_THAT(got.output("twice").to_vector<std::int16_t>(), Contains(8).Times(1));
    EXPECT_THAT(got.output("sum").to_vector<float>().front(), 10.0F);
    EXPECT_EQ(got.output("sum").to_vector<float>().size(), frames);
  }
  EXPECT_EQ(client_->counters().malformed_replies, 0U);
}

TEST_F(OnePart, NoMoreGoesInOnePartThanThisVersionSends) {
  daemon_.offer().inline_bytes = std::numeric_limits<std::uint64_t>::max();
  daemon_.offer().pipelines[0].max_frames = 2048;
  connect();
  const auto bytes = counting_bytes(1025);
  for (const std::uint32_t frames : {1024U, 1025U}) {
    client::request request;
    request.bytes = std::span{bytes}.first(4 * frames);
    request.frames = frames;
    auto future = client_->submit("double", request);
    const received submit = daemon_.expect(message_type::submit);
    EXPECT_EQ(submit.parts.size(), frames == 1024 ? 1U : 2U);
    daemon_.result(submit);
    future.get();
  }
}

TEST_F(OnePart, APayloadOfNoBytesIsAPartWhereTheDaemonSaysNothingOfOnePart) {
  daemon_.offer().pipelines[0].input.shape = {0};
  connect();
  client::request request;
  auto future = client_->submit("double", request);
  EXPECT_EQ(daemon_.expect(message_type::submit).parts.size(), 2U);
}

TEST_F(OnePart, BytesThatAreReleasedMayGoInOnePartAndStayForARepeat) {
  daemon_.offer().inline_bytes = 4096;
  connect();
  auto bytes = std::make_unique<std::vector<std::byte>>(counting_bytes(1));
  std::promise<void> done;
  auto released = done.get_future();
  client::request request;
  request.bytes = *bytes;
  request.release = [&] {
    bytes->assign(bytes->size(), std::byte{0xEE});
    done.set_value();
  };
  auto future = client_->submit("double", request);
  EXPECT_EQ(payload_of(daemon_.expect(message_type::submit)), "\1\2\3\4");
  daemon_.restart();
  daemon_.greet();
  const received again = daemon_.expect(message_type::submit);
  EXPECT_EQ(again.parts.size(), 1U);
  EXPECT_EQ(payload_of(again), "\1\2\3\4");
  EXPECT_NE(released.wait_for(std::chrono::seconds{0}), std::future_status::ready);
  daemon_.result(again);
  future.get();
  released.get();
}

TEST_F(OnePart, AWelcomeUnaskedSaysAnew) {
  connect();
  auto first = submit();
  const received before = daemon_.expect(message_type::submit);
  EXPECT_EQ(before.parts.size(), 2U);
  daemon_.offer().inline_bytes = 4096;
  daemon_.welcome(before);
  daemon_.result(before);
  first.get();
  auto second = submit();
  const received after = daemon_.expect(message_type::submit);
  EXPECT_EQ(after.parts.size(), 1U);
  daemon_.result(after);
  second.get();
}

TEST_F(OnePart, WhatWentInOnePartGoesInTwoToAnOlderDaemonThatTookItsPlace) {
  daemon_.offer().inline_bytes = 4096;
  connect();
  auto future = submit();
  EXPECT_EQ(daemon_.expect(message_type::submit).parts.size(), 1U);
  daemon_.offer().inline_bytes = 0;
  daemon_.restart();
  daemon_.greet();
  const received again = daemon_.expect(message_type::submit);
  EXPECT_EQ(again.parts.size(), 2U);
  EXPECT_EQ(payload_of(again), "\1\2\3\4");
  daemon_.result(again);
  EXPECT_THAT(future.get().output("sum").to_vector<float>(), ElementsAre(10.0F));
}

}  // namespace

namespace {

using namespace std::chrono_literals;
using wire::message_type;

struct malformed_case {
  const char* name;
  /// Spoils the right reply.
  std::function<void(std::vector<std::string>&)> spoil;
};

void PrintTo(const malformed_case& tested, std::ostream* out) {
  *out << tested.name;
}

/// Field offsets of the wire, written out: the test does not trust the encoder to spoil a message.
constexpr std::size_t type_at = 5;
constexpr std::size_t tensors_at = 40;
constexpr std::size_t frames_at = 44;
constexpr std::size_t first_tensor_at = 64;

class MalformedReply : public ::testing::TestWithParam<malformed_case> {};

TEST_P(MalformedReply, IsIgnoredAndCounted) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  const auto bytes = counting_bytes(2);
  client::request request;
  request.bytes = bytes;
  request.frames = 2;
  auto future = connected->submit("double", request);
  const received submit = daemon.expect(message_type::submit);
  std::vector<std::string> parts = result_parts(submit);
  GetParam().spoil(parts);
  daemon.send(submit.peer, parts);
  daemon.result(submit);
  EXPECT_EQ(future.get().frames(), 2U);
  EXPECT_EQ(connected->counters().malformed_replies, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Results, MalformedReply,
    ::testing::Values(malformed_case{"EmptyPart", [](auto& parts) { parts[0].clear(); }},
                      malformed_case{"ShortHeader", [](auto& parts) { parts[0].resize(63); }},
                      malformed_case{"WrongMagic", [](auto& parts) { parts[0][0] = 'X'; }},
                      malformed_case{"UnknownType", [](auto& parts) { parts[0][type_at] = 99; }},
                      malformed_case{"ClientsOwnType", [](auto& parts) { parts[0][type_at] = 16; }},
                      malformed_case{"TooFewTensors", [](auto& parts) { parts[0][tensors_at] = 1; }},
                      malformed_case{"MissingTensorHeader", [](auto& parts) { parts[0].resize(parts[0].size() - 1); }},
                      malformed_case{"OtherFrames", [](auto& parts) { parts[0][frames_at] = 1; }},
                      malformed_case{"UnknownDtype", [](auto& parts) { parts[0][first_tensor_at] = 9; }},
                      malformed_case{"MissingPart", [](auto& parts) { parts.pop_back(); }},
                      malformed_case{"SurplusPart", [](auto& parts) { parts.emplace_back("more"); }},
                      malformed_case{"ShortPart", [](auto& parts) { parts[1].pop_back(); }},
                      malformed_case{"LongPart", [](auto& parts) { parts[2] += '\0'; }},
                      malformed_case{"NoPart", [](auto& parts) { parts.resize(1); }},
                      malformed_case{"TooLittleInOnePart",
                                     [](auto& parts) {
                                       parts = in_one_part(parts);
                                       parts[0].pop_back();
                                     }},
                      malformed_case{"TooMuchInOnePart",
                                     [](auto& parts) {
                                       parts = in_one_part(parts);
                                       parts[0] += '\0';
                                     }},
                      malformed_case{"OneOfTwoInTheFirstPart",
                                     [](auto& parts) {
                                       parts[0] += parts[1];
                                       parts.erase(parts.begin() + 1);
                                     }},
                      malformed_case{"ErrorWithoutBody",
                                     [](auto& parts) {
                                       parts.resize(1);
                                       parts[0][type_at] = 33;
                                       parts[0][43] = 2;
                                     }},
                      malformed_case{"ErrorOfNoKind",
                                     [](auto& parts) {
                                       parts[0][type_at] = 33;
                                       parts.resize(2);
                                       parts[1] = "{}";
                                     }},
                      malformed_case{"WelcomeThatIsNoJson",
                                     [](auto& parts) {
                                       parts[0][type_at] = 2;
                                       parts.resize(2);
                                       parts[1] = "{";
                                     }},
                      malformed_case{"WelcomeThatIsNestedDeep",
                                     [](auto& parts) {
                                       parts[0][type_at] = 2;
                                       parts.resize(2);
                                       parts[1] = std::string(30'000, '[') + std::string(30'000, ']');
                                     }},
                      malformed_case{"WelcomeThatIsTooLong",
                                     [](auto& parts) {
                                       parts[0][type_at] = 2;
                                       parts.resize(2);
                                       parts[1] = "{" + std::string(wire::max_body_bytes, ' ') + "}";
                                     }}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(MalformedStatus, IsIgnoredAndCounted) {
  scripted_daemon daemon;
  const auto connected = daemon.connect(quick_options());
  auto status = std::async(std::launch::async, [&] { return connected->status_json(20s); });
  const received question = daemon.await(message_type::get_status);
  wire::message_header header;
  header.type = message_type::status_report;
  header.request_id = question.header.request_id;
  const std::vector<std::string> bodies{"", "[]", "{",
                                        R"({"a":)" + std::string(20'000, '[') + std::string(20'000, ']') + "}",
                                        "{" + std::string(wire::max_body_bytes, ' ') + "}"};
  for (const std::string& body : bodies) {
    daemon.send(question.peer, {test::header_part(header), body});
  }
  daemon.send(question.peer, {test::header_part(header), R"({"good":1})"});
  EXPECT_EQ(status.get(), R"({"good":1})");
  EXPECT_EQ(connected->counters().malformed_replies, bodies.size());
}

}  // namespace

}  // namespace penstock::test
