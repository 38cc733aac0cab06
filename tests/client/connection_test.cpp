#include <chrono>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <netdb.h>
#include <penstock/client.hpp>

#include "tests/client/client_fixtures.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using wire::message_type;

/// A client during silence, refusals and restarts of the daemon.
class Connection : public client_fixture {
 protected:
  std::future<result> submit(std::optional<std::chrono::nanoseconds> timeout = {}) {
    return submit_frames(1, 1, timeout);
  }

  static std::string connect_failure(const client_options& options) {
    try {
      const client never{options};
    } catch (const connect_error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Connection, ConnectFailsWhenNobodyListens) {
  client_options options;
  options.url = daemon_.url();
  daemon_.stop();
  options.connect_timeout = 30ms;
  EXPECT_THAT(connect_failure(options), HasSubstr(options.url));
}

TEST_F(Connection, ConnectSaysAtOnceWhatIsWrongWithAnAddress) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"nonsense", "\"nonsense\" is no address"},
      {"127.0.0.1:7600", "did you mean tcp://127.0.0.1:7600?"},
      {"tcp://127.0.0.1:99999", "port \"99999\"; a port is a number from 1 to 65535"},
      {"tcp://127.0.0.1:0", "port \"0\""},
      {"tcp://127.0.0.1:7600/", "port \"7600/\""},
      {"tcp://127.0.0.1", "has no port"},
      {"tcp://[::1]", "has no port"},
      {"tcp://:7600", "has no host"},
      {"tcp://*:7600", "is where a daemon listens"},
      {"http://127.0.0.1:7680", "there is no transport \"http\""},
      {"ipc://", "names no socket"},
      {"ipc://" + std::string(200, 'x'), "at most 107"}};
  for (const auto& [url, why] : wrong) {
    client_options options;
    options.url = url;
    EXPECT_THAT(connect_failure(options), HasSubstr(why)) << url;
  }
}

TEST_F(Connection, ConnectSaysSoonThatNobodyListens) {
  client_options options;
  options.url = daemon_.url();
  daemon_.stop();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(connect_failure(options), HasSubstr("the connection is refused"));
  options.url = "ipc:///nonexistent/penstock";
  EXPECT_THAT(connect_failure(options), HasSubstr("there is no such socket"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 8s);  // 1 s each; it was 5 s
}

TEST_F(Connection, ConnectSaysAtOnceThatANameDoesNotExist) {
  client_options options;
  options.url = "tcp://no-such-machine.invalid:7600";
  options.connect_timeout = 60s;
  addrinfo* found = nullptr;
  if (::getaddrinfo("no-such-machine.invalid", nullptr, nullptr, &found) != EAI_NONAME) {
    GTEST_SKIP() << "there is no name server that says so";
  }
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(connect_failure(options), HasSubstr("can't be resolved"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 30s);
}

TEST_F(Connection, ConnectSaysThatAPeerSendsNoWelcome) {
  client_options options = quick_options();
  options.url = daemon_.url();
  options.connect_timeout = 500ms;
  EXPECT_THAT(connect_failure(options), HasSubstr("sends no welcome"));
}

TEST_F(Connection, ConnectRefusesTimesThatAreNone) {
  for (const auto spoil :
       std::vector<void (*)(client_options&)>{[](client_options& options) { options.retry_after = -1s; },
                                              [](client_options& options) { options.retry_limit = 0s; },
                                              [](client_options& options) { options.expiry_grace = -1s; },
                                              [](client_options& options) { options.request_timeout = -1s; },
                                              [](client_options& options) { options.connect_timeout = -1s; }}) {
    client_options options;
    options.url = daemon_.url();
    spoil(options);
    EXPECT_THAT(connect_failure(options), HasSubstr("time"));
  }
}

TEST_F(Connection, TakesTimesThatNoClockCanAdd) {
  client_options options = quick_options();
  options.retry_after = options.retry_limit = options.expiry_grace = std::chrono::nanoseconds::max();
  client_ = daemon_.connect(options);
  auto future = submit(std::chrono::nanoseconds::max());
  daemon_.result(daemon_.expect(message_type::submit));
  future.get();
}

TEST_F(Connection, ABudgetBelowZeroIsOver) {
  client_ = daemon_.connect(quick_options());
  try {
    (void)submit(-1ns);
    ADD_FAILURE() << "it was taken";
  } catch (const request_error& error) {
    EXPECT_EQ(error.kind(), error_kind::expired);
  }
}

TEST_F(Connection, ConnectFailsWithTheDaemonsReasonWhenItRefuses) {
  client_options options = quick_options();
  options.url = daemon_.url();
  auto failure = std::async(std::launch::async, [&] { return connect_failure(options); });
  daemon_.error(daemon_.expect(message_type::hello), wire::status::shutdown, {"no room", "", "", ""});
  EXPECT_THAT(failure.get(), HasSubstr("no room"));
}

TEST_F(Connection, AsksAgainSoonWhereThereIsNoPlaceForIt) {
  client_options options = quick_options();
  options.url = daemon_.url();
  options.retry_after = 60s;
  auto connecting = std::async(std::launch::async, [&] { return std::make_unique<client>(options); });
  for (int refusal = 0; refusal < 2; ++refusal) {
    daemon_.error(daemon_.expect(message_type::hello), wire::status::too_many_clients, {"no room", "", "", ""});
  }
  daemon_.greet();
  client_ = connecting.get();
  EXPECT_EQ(client_->counters().hellos, 3U);
}

TEST_F(Connection, ConnectFailsWhereThereIsNoPlaceForLong) {
  client_options options = quick_options();
  options.url = daemon_.url();
  options.retry_after = 60s;
  auto failure = std::async(std::launch::async, [&] { return connect_failure(options); });
  received message = daemon_.expect(message_type::hello);
  for (; message.header.type == message_type::hello; message = daemon_.next()) {
    daemon_.error(message, wire::status::too_many_clients, {"no room", "", "", ""});
  }
  EXPECT_EQ(message.header.type, message_type::goodbye);
  EXPECT_THAT(failure.get(), HasSubstr("no room"));
}

TEST_F(Connection, ConnectFailsWhenTheDaemonSpeaksAnotherMajor) {
  client_options options = quick_options();
  options.url = daemon_.url();
  auto failure = std::async(std::launch::async, [&] { return connect_failure(options); });
  const received hello = daemon_.expect(message_type::hello);
  wire::message_header header;
  header.major = 2;
  header.type = message_type::error;
  header.request_id = hello.header.request_id;
  daemon_.send(hello.peer, {header_part(header), "{}"});
  EXPECT_THAT(failure.get(), HasSubstr("major version"));
}

TEST_F(Connection, SaysHelloAgainWhenItIsNotHeard) {
  client_options options = quick_options();
  options.url = daemon_.url();
  options.retry_after = 10ms;
  auto connecting = std::async(std::launch::async, [&] { return std::make_unique<client>(options); });
  const received first = daemon_.expect(message_type::hello);
  EXPECT_EQ(daemon_.greet().peer, first.peer);
  client_ = connecting.get();
  EXPECT_GE(client_->counters().hellos, 2U);
}

TEST_F(Connection, SendsAgainAfterSilenceUnderTheSameId) {
  client_options options = quick_options();
  options.retry_after = 20ms;
  client_ = daemon_.connect(options);
  auto future = submit(30s);
  const received first = daemon_.expect(message_type::submit);
  const received second = daemon_.await(message_type::submit);
  EXPECT_EQ(second.header.request_id, first.header.request_id);
  EXPECT_EQ(second.parts.at(1), first.parts.at(1));
  EXPECT_EQ(second.peer, first.peer);
  EXPECT_LT(second.header.timeout_ns, first.header.timeout_ns);
  daemon_.result(second);
  future.get();
  EXPECT_GE(client_->counters().sent_again, 1U);
}

TEST_F(Connection, GreetsAgainWhenTheDaemonForgotItAndSendsAgain) {
  client_ = daemon_.connect(quick_options());
  auto future = submit();
  const received first = daemon_.expect(message_type::submit);
  daemon_.error(first, wire::status::hello_required);
  daemon_.greet();
  const received second = daemon_.expect(message_type::submit);
  EXPECT_EQ(second.header.request_id, first.header.request_id);
  daemon_.result(second);
  future.get();
}

TEST_F(Connection, ShowsItsTokenOverTheNextConnectionAndSendsAgain) {
  client_ = daemon_.connect(quick_options());
  auto future = submit();
  const received before = daemon_.expect(message_type::submit);
  daemon_.break_connections();
  EXPECT_EQ(token_of(daemon_.greet()), daemon_.offer().resume);
  const received after = daemon_.expect(message_type::submit);
  EXPECT_EQ(after.header.request_id, before.header.request_id);
  daemon_.result(after);
  future.get();
}

TEST_F(Connection, TakesAProbeOfItsConnectionForWhatItIs) {
  client_ = daemon_.connect(quick_options());
  auto pinged = std::async(std::launch::async, [this] { return client_->ping(20s); });
  const received ping = daemon_.expect(message_type::ping);
  wire::message_header probe;
  probe.type = message_type::pong;
  daemon_.send(ping.peer, {header_part(probe)});
  probe.request_id = ping.header.request_id;
  daemon_.send(ping.peer, {header_part(probe)});
  pinged.get();
  EXPECT_EQ(client_->counters().unmatched_replies, 0U);
}

TEST_F(Connection, GreetsOnceForManyRefusedRequests) {
  client_ = daemon_.connect(quick_options());
  auto one = submit();
  auto two = submit();
  const received first = daemon_.expect(message_type::submit);
  const received second = daemon_.expect(message_type::submit);
  daemon_.error(first, wire::status::hello_required);
  daemon_.error(second, wire::status::hello_required);
  daemon_.greet();
  daemon_.result(daemon_.expect(message_type::submit));
  daemon_.result(daemon_.expect(message_type::submit));
  one.get();
  two.get();
  EXPECT_EQ(client_->counters().hellos, 2U);
}

TEST_F(Connection, SurvivesARestartAsTheSameClientWithAnotherPipelineId) {
  client_ = daemon_.connect(quick_options());
  auto future = submit();
  const received before = daemon_.expect(message_type::submit);
  daemon_.offer().pipelines[0].id = 9;
  daemon_.restart();
  EXPECT_EQ(token_of(daemon_.greet()), daemon_.offer().resume);
  const received after = daemon_.expect(message_type::submit);
  EXPECT_EQ(after.header.request_id, before.header.request_id);
  EXPECT_EQ(after.header.pipeline, 9U);
  daemon_.result(after);
  EXPECT_EQ(future.get().frames(), 1U);
  EXPECT_EQ(client_->server().instance, "first+");
}

TEST_F(Connection, RequestMadeWhileTheDaemonIsAwayIsSentWhenItIsBack) {
  client_ = daemon_.connect(quick_options());
  daemon_.stop();
  auto future = submit();
  daemon_.restart();
  daemon_.greet();
  daemon_.result(daemon_.await(message_type::submit));
  future.get();
}

TEST_F(Connection, FailsWhatTheDaemonCameBackWithout) {
  client_ = daemon_.connect(quick_options());
  auto future = submit();
  (void)daemon_.expect(message_type::submit);
  daemon_.offer().pipelines[0].input.shape = {5};
  daemon_.restart();
  daemon_.greet();
  const request_error error = error_of(future);
  EXPECT_EQ(error.status_name(), "UNKNOWN_PIPELINE");
  EXPECT_THAT(error.what(), HasSubstr("double"));
}

TEST_F(Connection, ExpiresByItselfWhenNoReplyComes) {
  client_options options = quick_options();
  options.expiry_grace = 5ms;
  client_ = daemon_.connect(options);
  auto future = submit(10ms);
  const request_error error = error_of(future);
  EXPECT_EQ(error.kind(), error_kind::expired);
  EXPECT_EQ(error.details().step, "client");
}

TEST_F(Connection, ReplyAfterItsExpiryIsCountedAndNotDelivered) {
  client_options options = quick_options();
  options.expiry_grace = 5ms;
  client_ = daemon_.connect(options);
  auto future = submit(10ms);
  const received sent = daemon_.expect(message_type::submit);
  EXPECT_EQ(error_of(future).kind(), error_kind::expired);
  daemon_.result(sent);
  auto pinged = std::async(std::launch::async, [this] { return client_->ping(20s); });
  daemon_.answer_pings(1);
  pinged.get();
  EXPECT_EQ(client_->counters().unmatched_replies, 1U);
}

TEST_F(Connection, DestructionEndsWhatIsInFlightAndSaysGoodbye) {
  client_ = daemon_.connect(quick_options());
  auto future = submit();
  const received sent = daemon_.expect(message_type::submit);
  client_.reset();
  EXPECT_EQ(error_of(future).kind(), error_kind::shutdown);
  EXPECT_EQ(daemon_.expect(message_type::goodbye).peer, sent.peer);
}

TEST_F(Connection, AnswersADaemonThatStopsWhenItHasTakenInWhatCameBefore) {
  client_ = daemon_.connect(quick_options());
  auto future = submit();
  const received sent = daemon_.expect(message_type::submit);
  daemon_.result(sent);
  wire::message_header farewell;
  farewell.type = message_type::goodbye;
  daemon_.send(sent.peer, {header_part(farewell)});
  EXPECT_EQ(daemon_.expect(message_type::goodbye).peer, sent.peer);
  EXPECT_EQ(future.get().frames(), 1U);
}

TEST_F(Connection, DestructionEndsEvenWhenTheDaemonIsAway) {
  client_ = daemon_.connect(quick_options());
  auto future = submit();
  (void)daemon_.expect(message_type::submit);
  daemon_.stop();
  client_.reset();
  EXPECT_EQ(error_of(future).kind(), error_kind::shutdown);
}

}  // namespace
}  // namespace penstock::test
