// The load against servers that can't keep up with it, refuse it, or don't answer.

#include "tests/bench/crowd.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zmq.hpp>

#include "proto/message.hpp"
#include "tests/bench/echo_server.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/own_process.hpp"

namespace penstock::bench {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

constexpr std::size_t more_than_is_queued = 8000;  // by ZeroMQ with its usual marks and by the kernel, both ways

// About so many requests of each of two clients are due within a millisecond.
crowd_settings at_once(const std::string& endpoint, std::size_t requests,
                       milliseconds patience = crowd_settings{}.patience) {
  return {.endpoint = endpoint,
          .floats = 1024,
          .clients = 2,
          .rate = 1e3 * static_cast<double>(requests),
          .span = milliseconds{1},
          .hello = false,
          .patience = patience};
}

// Answers the first `answers` requests, every other one with an ERROR, and takes the others.
void answer_some(const std::string& endpoint, int answers) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.bind(endpoint);
  zmq::message_t client;
  zmq::message_t request;
  for (int at = 0;; ++at) {
    (void)socket.recv(client);
    (void)socket.recv(request);
    if (at < answers) {
      const std::span part{static_cast<std::byte*>(request.data()), request.size()};
      wire::message_header header;
      (void)wire::decode(part, header);
      if (at % 2 == 1) {
        header.type = wire::message_type::error;
        header.code = wire::status::no_credit;
      }
      wire::encode(header, part);
      (void)socket.send(client, zmq::send_flags::sndmore);
      (void)socket.send(request, zmq::send_flags::none);
    }
  }
}

TEST(Crowd, GetsEveryReplyOfAnEchoThatItOverdrives) {
  endpoint_source endpoints;
  const echo_server echo(endpoints.ipc());
  const crowd_report report = run_crowd(at_once(echo.endpoint(), more_than_is_queued));
  EXPECT_GT(report.sent, more_than_is_queued);
  EXPECT_EQ(report.results.size(), report.sent);
  EXPECT_EQ(report.unanswered, 0U);
}

TEST(Crowd, CountsALatencyFromWhenTheRequestWasMeantToLeave) {
  endpoint_source endpoints;
  const echo_server echo(endpoints.ipc());
  const crowd_report report = run_crowd(at_once(echo.endpoint(), more_than_is_queued));
  std::vector<double> came_us;
  for (const crowd_result& each : report.results) {
    EXPECT_LT(each.meant, milliseconds{1});
    came_us.push_back(std::chrono::duration<double, std::micro>(each.meant).count() + each.latency_us);
  }
  EXPECT_TRUE(std::is_sorted(came_us.begin(), came_us.end(), [](double a, double b) { return a < b - 0.01; }));
}

TEST(Crowd, CountsWhatWasRefusedAndWhatHadNoAnswer) {
  endpoint_source endpoints;
  const std::string endpoint = endpoints.ipc();
  const own_process server([&] { answer_some(endpoint, 10); });
  const crowd_report report = run_crowd(at_once(endpoint, 100, milliseconds{2000}));
  EXPECT_EQ(report.results.size(), 5U);
  EXPECT_EQ(report.refused, 5U);
  EXPECT_THAT(report.errors, ElementsAre(Pair("NO_CREDIT", 5)));
  EXPECT_EQ(report.unanswered, report.sent - 10);
}

TEST(Crowd, ThrowsWhereAllAnswersAreAskedForAndSomeAreMissing) {
  endpoint_source endpoints;
  const std::string endpoint = endpoints.ipc();
  const own_process server([&] { answer_some(endpoint, 10); });
  EXPECT_THAT([&] { (void)run_answered_crowd(at_once(endpoint, 100, milliseconds{2000})); },
              ThrowsMessage<std::runtime_error>(HasSubstr("requests had no answer")));
}

TEST(Crowd, EndsWhereNobodyListens) {
  endpoint_source endpoints;
  crowd_settings settings = at_once(endpoints.ipc(), more_than_is_queued, milliseconds{50});
  EXPECT_THROW((void)run_crowd(settings), std::runtime_error);
  settings.hello = true;
  EXPECT_THROW((void)run_crowd(settings), std::runtime_error);
}

TEST(Crowd, EndsWhereNobodyListensWithNothingToSendEither) {
  endpoint_source endpoints;
  crowd_settings settings = at_once(endpoints.ipc(), 1, milliseconds{50});
  settings.span = {};
  settings.hello = true;
  EXPECT_THROW((void)run_crowd(settings), std::runtime_error);
}

TEST(Crowd, SendsNothingMoreOnceItIsToldToStop) {
  endpoint_source endpoints;
  const echo_server echo(endpoints.ipc());
  crowd_settings settings = at_once(echo.endpoint(), 1);
  settings.rate = 10;
  settings.span = std::chrono::minutes{5};
  std::stop_source enough;
  settings.stop = enough.get_token();
  settings.before_sending = [&] { enough.request_stop(); };
  const crowd_report report = run_crowd(settings);
  EXPECT_EQ(report.sent, 0U);
  EXPECT_EQ(report.unanswered, 0U);
}

TEST(Crowd, BeginsWhenItIsAllowedTo) {
  endpoint_source endpoints;
  const echo_server echo(endpoints.ipc());
  crowd_settings settings = at_once(echo.endpoint(), 100);
  std::chrono::steady_clock::time_point allowed;
  settings.before_sending = [&] { allowed = std::chrono::steady_clock::now(); };
  EXPECT_GE(run_crowd(settings).begin, allowed);
  EXPECT_GT(allowed.time_since_epoch().count(), 0);
}

}  // namespace
}  // namespace penstock::bench
