#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <penstock/client.hpp>

#include "tests/client/held_send.hpp"
#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::message_type;

/// A daemon that the test plays, and a client that is connected to it.
class Delivery : public ::testing::Test {
 protected:
  void connect(const client_options& options = quick_options()) { client_ = daemon_.connect(options); }

  /// One frame.
  std::future<result> submit(std::uint8_t first = 1, std::optional<std::chrono::nanoseconds> timeout = {}) {
    const auto bytes = counting_bytes(1, first);
    client::request request;
    request.bytes = bytes;
    request.timeout = timeout;
    return client_->submit("double", request);
  }

  /// Everything that the daemon has sent has been handled when this returns.
  void settle() {
    auto pinged = std::async(std::launch::async, [this] { return client_->ping(20s); });
    daemon_.answer_pings(1);
    pinged.get();
  }

  static request_error error_of(std::future<result>& from) {
    try {
      from.get();
    } catch (const request_error& error) {
      return error;
    }
    throw std::logic_error("there was a result");
  }

  scripted_daemon daemon_;
  std::unique_ptr<client> client_;
};

TEST_F(Delivery, HelloNamesTheClient) {
  client_options options = quick_options();
  options.url = daemon_.url();
  options.name = "tester";
  auto connecting = std::async(std::launch::async, [&] { return std::make_unique<client>(options); });
  const received hello = daemon_.greet();
  client_ = connecting.get();
  EXPECT_THAT(hello.parts.at(1), HasSubstr("\"tester\""));
  EXPECT_EQ(token_of(hello), "");
}

TEST_F(Delivery, WelcomeTellsServerAndPipelines) {
  connect();
  EXPECT_EQ(client_->server().name, "scripted 1");
  EXPECT_EQ(client_->server().credit_requests, 64U);
  const auto pipelines = client_->pipelines();
  ASSERT_EQ(pipelines.size(), 1U);
  EXPECT_EQ(pipelines[0].name, "double");
  EXPECT_EQ(pipelines[0].input.text(), "u8[4]");
  EXPECT_EQ(pipelines[0].outputs[1].op, "moments");
}

TEST_F(Delivery, SubmitCarriesPipelineFramesShapeAndBytes) {
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

TEST_F(Delivery, ResultHasEveryOutputWithNameShapeAndBytes) {
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

TEST_F(Delivery, ResultOutlivesItsClient) {
  connect();
  auto future = submit(10);
  daemon_.result(daemon_.expect(message_type::submit));
  const result got = future.get();
  client_.reset();
  EXPECT_THAT(got.output("twice").to_vector<std::int16_t>(), ElementsAre(20, 22, 24, 26));
}

TEST_F(Delivery, ErrorCarriesStatusAndDetails) {
  connect();
  auto future = submit();
  daemon_.error(daemon_.expect(message_type::submit), wire::status::failed, {"it broke", "", "psd", "cudaErrorOops"});
  const request_error error = error_of(future);
  EXPECT_EQ(error.kind(), error_kind::failed);
  EXPECT_EQ(error.status_name(), "FAILED");
  EXPECT_EQ(error.details().stage, "psd");
  EXPECT_STREQ(error.what(), "FAILED: it broke, in stage psd, device error cudaErrorOops");
}

TEST_F(Delivery, UnknownReasonIsTakenForItsKind) {
  connect();
  auto future = submit();
  daemon_.error(daemon_.expect(message_type::submit), static_cast<wire::status>(0x01FE));
  EXPECT_EQ(error_of(future).kind(), error_kind::rejected);
}

TEST_F(Delivery, LateDuplicateReplyCompletesNothing) {
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

TEST_F(Delivery, CancelAsksTheDaemonAndEndsOnce) {
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

TEST_F(Delivery, CancelOfWhatTheDaemonDoesNotKnowEndsAsCancelled) {
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

TEST_F(Delivery, CancelOfNothingSendsNothing) {
  connect();
  client_->cancel(12345);
  auto future = submit();
  daemon_.result(daemon_.expect(message_type::submit));
  future.get();
}

TEST_F(Delivery, LentBytesAreReleasedOnce) {
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

TEST_F(Delivery, CompletionMaySubmitTheNext) {
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

TEST_F(Delivery, StatusIsTheDaemonsJson) {
  connect();
  auto asked = std::async(std::launch::async, [this] { return client_->status_json(20s); });
  const received question = daemon_.expect(message_type::get_status);
  wire::message_header header;
  header.type = message_type::status_report;
  header.request_id = question.header.request_id;
  daemon_.send(question.from, {header_part(header), R"({"requests":{}})"});
  EXPECT_EQ(asked.get(), R"({"requests":{}})");
}

TEST_F(Delivery, PingCountsFromBeforeItWasSentWhateverHeldTheSenderBehindIt) {
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

TEST_F(Delivery, PingExpiresWhenNobodyAnswers) {
  connect();
  try {
    (void)client_->ping(5ms);
    FAIL() << "a PONG came from nowhere";
  } catch (const request_error& error) {
    EXPECT_EQ(error.kind(), error_kind::expired);
  }
}

TEST_F(Delivery, EveryRequestOfManyThreadsEndsOnce) {
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
}  // namespace penstock::test
