// One daemon, real sockets: CANCEL at random, thousands of times. Each request still gets exactly one terminal reply.

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::testing {
namespace {

using wire::message_type;
using wire::status;

// One frame of "long" is 17 million products: more than a shard does by itself on any machine (device_facts), so that
// it is executing while others come, and wait behind it at every step of the path.
std::string cancel_configuration() {
  return R"(config_version = 1
[device]
streams = 2
slots = 4
[[pipeline]]
name = "short"
input = { dtype = "cu8", shape = [16] }
[[pipeline.stage]]
name = "iq"
op = "convert"
[[pipeline]]
name = "long"
input = { dtype = "cu8", shape = [16384] }
batch = { max_frames = 4 }
[[pipeline.stage]]
name = "iq"
op = "convert"
)" + bench::matched_filter{.taps = 1024}.stage("matched");
}

class Cancel : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::uint64_t cancels = 10000;
  static constexpr std::uint64_t in_flight = 64;

  struct sent_request {
    bool cancelled = false;  // whether a CANCEL went out for it
    int replies = 0;
    bool ended_by_result = false;
  };

  void submit_one() {
    const bool of_short = random_() % 4 != 0;
    ++last_;
    peer_.send(raw_submit::of_iq(last_, of_short ? 0 : 1, 1, of_short ? 16 : 16384, 'x').parts());
    requests_[last_];
    ++unanswered_;
  }
  void cancel_one() {
    const std::uint64_t id = last_ - random_() % std::min(last_, in_flight);
    sent_request& request = requests_.at(id);
    if (!request.cancelled) {
      request.cancelled = true;
      // Of one that is answered already: its reply comes again, or that there is no such request.
      awaited_answers_ += request.replies != 0 ? 1 : 0;
      peer_.send_control(message_type::cancel, id);
      ++cancelled_;
    }
  }
  void take(const raw_message& reply) {
    const std::uint64_t id = reply.header.request_id;
    sent_request& request = requests_.at(id);
    const bool is_result = reply.header.type == message_type::result;
    if (++request.replies == 1) {
      --unanswered_;
      request.ended_by_result = is_result;
      awaited_answers_ += is_result && request.cancelled ? 1 : 0;
      if (!is_result) {
        ASSERT_TRUE(request.cancelled) << "request " << id << " was ended by nobody: " << reply.json();
        ASSERT_EQ(reply.header.code, status::cancelled) << "request " << id;
        ++ended_while_[reply.json().at("step").get<std::string>()];
      }
      return;
    }
    ASSERT_EQ(request.replies, 2) << "request " << id;
    ASSERT_TRUE(request.cancelled && request.ended_by_result) << "request " << id << " was answered twice";
    ASSERT_TRUE(is_result || reply.header.code == status::rejected) << "request " << id;
    --awaited_answers_;
  }
  void receive(std::chrono::milliseconds patience) {
    while ((unanswered_ != 0 || awaited_answers_ != 0) && !HasFatalFailure()) {
      const auto reply = peer_.receive(patience);
      if (!reply) {
        return;
      }
      take(*reply);
    }
  }

  daemon_process daemon_{{.backend = GetParam(), .completion = "callback", .configuration = cancel_configuration()}};
  raw_peer peer_{daemon_.endpoint()};
  const unsigned seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  std::map<std::uint64_t, sent_request> requests_;
  std::map<std::string, std::uint64_t> ended_while_;  // cancelled ones, by step
  std::uint64_t last_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t unanswered_ = 0;
  std::uint64_t awaited_answers_ = 0;  // second ones, to a CANCEL that came too late
};

TEST_P(Cancel, AtAnyMomentLeavesEveryRequestWithOneTerminalReply) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  peer_.hello();
  while (cancelled_ < cancels && !HasFatalFailure()) {
    for (std::uint64_t some = random_() % 8; some > 0 && unanswered_ < in_flight; --some) {
      submit_one();
    }
    for (std::uint64_t some = last_ != 0 ? random_() % 4 : 0; some > 0; --some) {
      cancel_one();
    }
    receive(std::chrono::milliseconds{unanswered_ >= in_flight ? 1 : 0});
  }
  receive(std::chrono::seconds{20});
  EXPECT_EQ(unanswered_, 0U);
  EXPECT_EQ(awaited_answers_, 0U);
  for (const auto& [id, request] : requests_) {
    ASSERT_EQ(request.replies, request.cancelled && request.ended_by_result ? 2 : 1) << "request " << id;
  }
  // What a batch of cancelled requests leaves behind goes back when the device is done with it.
  nlohmann::json counters = peer_.status();
  while (counters.at("slots").at("free") != counters.at("slots").at("total") && !HasFailure()) {
    counters = peer_.status();
  }
  EXPECT_TRUE(counters.at("balanced")) << counters.dump(1);
  EXPECT_EQ(counters.at("requests").at("in_flight"), 0);
  EXPECT_EQ(counters.at("requests").at("accepted"), last_);
  for (const char* const step : {"queued", "batched", "executing"}) {
    EXPECT_GT(ended_while_[step], 10U) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, Cancel, ::testing::ValuesIn(backends_to_test()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace penstock::testing
