// The load against servers that can't keep up with it, refuse it, or don't answer.

#include "tests/bench/open_loop.hpp"

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
#include "tests/bench/servers.hpp"

namespace penstock::bench {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

constexpr std::size_t more_than_queues_hold = 8000;  // by ZeroMQ with its usual marks and by the kernel, both ways

// About so many requests of each of two clients are due within a millisecond.
open_loop_settings at_once(const std::string& endpoint, std::size_t requests,
                           milliseconds patience = open_loop_settings{}.patience) {
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

TEST(OpenLoop, GetsEveryReplyOfAnOverloadedEcho) {
  endpoint_source endpoints;
  const echo_server echo(endpoints.ipc());
  const open_loop_report report = run_open_loop(at_once(echo.endpoint(), more_than_queues_hold));
  EXPECT_GT(report.sent, more_than_queues_hold);
  EXPECT_EQ(report.results.size(), report.sent);
  EXPECT_EQ(report.unanswered, 0U);
}

TEST(OpenLoop, CountsLatencyFromTheScheduledDeparture) {
  endpoint_source endpoints;
  const echo_server echo(endpoints.ipc());
  const open_loop_report report = run_open_loop(at_once(echo.endpoint(), more_than_queues_hold));
  std::vector<double> arrivals_us;
  for (const open_loop_result& each : report.results) {
    EXPECT_LT(each.scheduled, milliseconds{1});
    arrivals_us.push_back(std::chrono::duration<double, std::micro>(each.scheduled).count() + each.latency_us);
  }
  EXPECT_TRUE(std::is_sorted(arrivals_us.begin(), arrivals_us.end(), [](double a, double b) { return a < b - 0.01; }));
}

TEST(OpenLoop, CountsRefusedAndUnansweredRequests) {
  endpoint_source endpoints;
  const std::string endpoint = endpoints.ipc();
  const child_process server([&] { answer_some(endpoint, 10); });
  const open_loop_report report = run_open_loop(at_once(endpoint, 100, milliseconds{2000}));
  EXPECT_EQ(report.results.size(), 5U);
  EXPECT_EQ(report.refused, 5U);
  EXPECT_THAT(report.errors, ElementsAre(Pair("NO_CREDIT", 5)));
  EXPECT_EQ(report.unanswered, report.sent - 10);
}

TEST(OpenLoop, ThrowsIfEveryAnswerIsRequiredAndSomeAreMissing) {
  endpoint_source endpoints;
  const std::string endpoint = endpoints.ipc();
  const child_process server([&] { answer_some(endpoint, 10); });
  EXPECT_THAT([&] { (void)run_answered_open_loop(at_once(endpoint, 100, milliseconds{2000})); },
              ThrowsMessage<std::runtime_error>(HasSubstr("requests had no answer")));
}

TEST(OpenLoop, EndsWithoutAServer) {
  endpoint_source endpoints;
  open_loop_settings settings = at_once(endpoints.ipc(), more_than_queues_hold, milliseconds{50});
  EXPECT_THROW((void)run_open_loop(settings), std::runtime_error);
  settings.hello = true;
  EXPECT_THROW((void)run_open_loop(settings), std::runtime_error);
}

TEST(OpenLoop, EndsWithoutAServerAndWithNothingToSend) {
  endpoint_source endpoints;
  open_loop_settings settings = at_once(endpoints.ipc(), 1, milliseconds{50});
  settings.span = {};
  settings.hello = true;
  EXPECT_THROW((void)run_open_loop(settings), std::runtime_error);
}

TEST(OpenLoop, SendsNothingAfterAStopRequest) {
  endpoint_source endpoints;
  const echo_server echo(endpoints.ipc());
  open_loop_settings settings = at_once(echo.endpoint(), 1);
  settings.rate = 10;
  settings.span = std::chrono::minutes{5};
  std::stop_source enough;
  settings.stop = enough.get_token();
  settings.before_sending = [&] { enough.request_stop(); };
  const open_loop_report report = run_open_loop(settings);
  EXPECT_EQ(report.sent, 0U);
  EXPECT_EQ(report.unanswered, 0U);
}

TEST(OpenLoop, StartsWhenBeforeSendingReturns) {
  endpoint_source endpoints;
  const echo_server echo(endpoints.ipc());
  open_loop_settings settings = at_once(echo.endpoint(), 100);
  std::chrono::steady_clock::time_point allowed;
  settings.before_sending = [&] { allowed = std::chrono::steady_clock::now(); };
  EXPECT_GE(run_open_loop(settings).begin, allowed);
  EXPECT_GT(allowed.time_since_epoch().count(), 0);
}

}  // namespace
}  // namespace penstock::bench
