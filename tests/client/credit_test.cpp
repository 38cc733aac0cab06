#include <future>

#include <gmock/gmock.h>
#include <penstock/client.hpp>

#include "client/cpp/credit_gate.hpp"
#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using answer = link::credit_gate::answer;
using wire::message_type;

link::time_point soon() {
  return std::chrono::steady_clock::now() + 5ms;
}

TEST(CreditGate, GivesAsManyRequestsAsWereGranted) {
  link::credit_gate gate;
  gate.grant(2, 100);
  EXPECT_EQ(gate.try_take(1), answer::taken);
  EXPECT_EQ(gate.try_take(1), answer::taken);
  EXPECT_EQ(gate.try_take(1), answer::none_left);
  gate.give_back(1);
  EXPECT_EQ(gate.try_take(1), answer::taken);
}

TEST(CreditGate, GivesAsManyBytesAsWereGranted) {
  link::credit_gate gate;
  gate.grant(10, 100);
  EXPECT_EQ(gate.try_take(60), answer::taken);
  EXPECT_EQ(gate.try_take(41), answer::none_left);
  EXPECT_EQ(gate.try_take(40), answer::taken);
}

TEST(CreditGate, RefusesAtOnceWhatCanNeverBe) {
  link::credit_gate gate;
  EXPECT_EQ(gate.take(1, link::never), answer::never_enough);
  gate.grant(10, 100);
  EXPECT_EQ(gate.take(101, link::never), answer::never_enough);
}

TEST(CreditGate, WaitsNoLongerThanTheDeadline) {
  link::credit_gate gate;
  gate.grant(1, 100);
  EXPECT_EQ(gate.take(1, soon()), answer::taken);
  EXPECT_EQ(gate.take(1, soon()), answer::none_left);
}

TEST(CreditGate, SmallerGrantHoldsBackUntilEnoughCameBack) {
  link::credit_gate gate;
  gate.grant(3, 100);
  for (int each = 0; each < 3; ++each) {
    ASSERT_EQ(gate.try_take(1), answer::taken);
  }
  gate.grant(2, 100);
  gate.give_back(1);
  EXPECT_EQ(gate.try_take(1), answer::none_left);
  gate.give_back(1);
  EXPECT_EQ(gate.try_take(1), answer::taken);
}

TEST(CreditGate, NotifyingWakesAWaitingThread) {
  link::credit_gate gate;
  gate.grant(1, 100);
  ASSERT_EQ(gate.try_take(1), answer::taken);
  auto waiting = std::async(std::launch::async, [&gate] { return gate.take(1, link::never); });
  gate.give_back(1);
  gate.notify_waiting();
  EXPECT_EQ(waiting.get(), answer::taken);
}

TEST(CreditGate, ManyReturnedCreditsWakeAWaitingThreadByThemselves) {
  link::credit_gate gate;
  gate.grant(100, 100);
  for (int each = 0; each < 100; ++each) {
    ASSERT_EQ(gate.try_take(1), answer::taken);
  }
  auto waiting = std::async(std::launch::async, [&gate] { return gate.take(1, link::never); });
  for (int each = 0; each < 100; ++each) {
    gate.give_back(1);
  }
  EXPECT_EQ(waiting.get(), answer::taken);
}

TEST(CreditGate, ClosingWakesWhoWaits) {
  link::credit_gate gate;
  gate.grant(1, 100);
  ASSERT_EQ(gate.try_take(1), answer::taken);
  auto waiting = std::async(std::launch::async, [&gate] { return gate.take(1, link::never); });
  gate.close();
  EXPECT_EQ(waiting.get(), answer::closed);
}

/// The same through a client.
class Credits : public ::testing::Test {
 protected:
  Credits() {
    bytes_ = counting_bytes(2);
    request_.bytes = bytes_;
    request_.frames = 2;
  }
  void connect(std::uint32_t requests, std::uint64_t bytes) {
    daemon_.offer().credit_requests = requests;
    daemon_.offer().credit_bytes = bytes;
    client_ = daemon_.connect(quick_options());
  }

  scripted_daemon daemon_;
  std::unique_ptr<client> client_;
  std::vector<std::byte> bytes_;
  client::request request_;
};

TEST_F(Credits, SubmitWaitsUntilAReplyGivesCreditBack) {
  connect(2, 1000);
  auto one = client_->submit("double", request_);
  auto two = client_->submit("double", request_);
  EXPECT_FALSE(client_->try_submit("double", request_).has_value());
  auto three = std::async(std::launch::async, [this] { return client_->submit("double", request_).get(); });
  const received first = daemon_.expect(message_type::submit);
  const received second = daemon_.expect(message_type::submit);
  daemon_.error(first, wire::status::expired);
  const received third = daemon_.expect(message_type::submit);
  daemon_.result(second);
  daemon_.result(third);
  EXPECT_THROW(one.get(), request_error);
  EXPECT_EQ(two.get().frames(), 2U);
  EXPECT_EQ(three.get().frames(), 2U);
}

TEST_F(Credits, BytesAreHeldBackToo) {
  connect(10, 15);
  auto one = client_->submit("double", request_);
  EXPECT_FALSE(client_->try_submit("double", request_).has_value());
  daemon_.result(daemon_.expect(message_type::submit));
  one.get();
  EXPECT_TRUE(client_->try_submit("double", request_).has_value());
}

TEST_F(Credits, NoCreditWithinTheTimeoutIsAnExpiry) {
  connect(1, 1000);
  auto one = client_->submit("double", request_);
  request_.timeout = 5ms;
  try {
    auto two = client_->submit("double", request_);
    FAIL() << "there was credit";
  } catch (const request_error& error) {
    EXPECT_EQ(error.kind(), error_kind::expired);
  }
}

TEST_F(Credits, RequestLargerThanAllCreditIsRefusedAtOnce) {
  connect(10, 7);
  try {
    auto never = client_->submit("double", request_);
    FAIL() << "it was taken";
  } catch (const request_error& error) {
    EXPECT_EQ(error.status_name(), "TOO_LARGE");
  }
}

TEST_F(Credits, LocalExpiryGivesCreditBack) {
  daemon_.offer().credit_requests = 1;
  client_options options = quick_options();
  options.expiry_grace = 1ms;
  client_ = daemon_.connect(options);
  request_.timeout = 5ms;
  auto one = client_->submit("double", request_);
  EXPECT_THROW(one.get(), request_error);
  request_.timeout = 20s;
  auto two = client_->submit("double", request_);
  (void)daemon_.expect(message_type::submit);
  daemon_.result(daemon_.expect(message_type::submit));
  EXPECT_EQ(two.get().frames(), 2U);
}

}  // namespace
}  // namespace penstock::test
