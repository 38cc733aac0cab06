#include "daemon/net/control_queue.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using namespace std::chrono_literals;
using wire::message_type;

/// A queue whose clock the test moves: connections earn 1 % of the time up to 1 ms, all of them 10 % up to 10 ms.
class ControlQueue : public ::testing::Test {
 protected:
  static control_limits limits() {
    control_limits made;
    made.share = 0.01;
    made.burst = 1ms;
    made.share_of_all = 0.1;
    made.burst_of_all = 10ms;
    made.messages = 4;
    made.strangers = 8;
    made.bytes = 64'000;
    made.between_free = 1ms;
    made.between_long = 20ms;
    return made;
  }

  /// A message comes that takes so long: whether it is handled as it comes; else it waits or is dropped.
  bool comes(const std::string& from, std::chrono::nanoseconds takes, std::uint64_t id = 0,
             message_type type = message_type::ping) {
    control_queue::account& payer = queue_.account_of(from, /*known=*/true, now_);
    if (queue_.admits(payer, now_)) {
      now_ += takes;
      queue_.charge(payer, takes);
      return true;
    }
    waiting_message what{.identity = from, .header = {}, .body = {}, .judged = {}, .came = now_};
    what.header.type = type;
    what.header.request_id = id;
    dropped_ += queue_.park(payer, std::move(what)) ? 0 : 1;
    return false;
  }
  /// Whose message is handled next, and which; it takes so long. "" for none.
  std::string next(std::chrono::nanoseconds takes, bool idle = false) {
    const auto found = queue_.next(
        now_, idle, [](const waiting_message& message) { return message.header.type == message_type::get_trace; });
    if (!found) {
      return "";
    }
    now_ += takes;
    queue_.done(takes, now_);
    return found->identity + std::to_string(found->header.request_id);
  }

  control_queue queue_{limits()};
  time_point now_ = time_point{} + 1h;
  int dropped_ = 0;
};

TEST_F(ControlQueue, APingASecondIsNeverDelayed) {
  for (int second = 0; second < 1000; ++second) {
    EXPECT_TRUE(comes("a", 500us));
    now_ += 1s;
  }
  EXPECT_EQ(queue_.waiting(), 0U);
}

TEST_F(ControlQueue, OneWhoHasSpentItsBurstWaitsUntilItHasEarnedAgain) {
  EXPECT_TRUE(comes("a", 1500us));
  EXPECT_FALSE(comes("a", 0us, 7));
  EXPECT_EQ(next(0us), "");
  now_ += 40ms;  // it owes 500 us
  EXPECT_EQ(next(0us), "");
  now_ += 10ms;
  EXPECT_EQ(next(0us), "a7");
  EXPECT_EQ(queue_.waiting(), 0U);
}

TEST_F(ControlQueue, OneConnectionsDebtDelaysNoOther) {
  EXPECT_TRUE(comes("flood", 5ms));
  EXPECT_FALSE(comes("flood", 0us));
  EXPECT_TRUE(comes("good", 100us));
}

TEST_F(ControlQueue, KeepsTheOrderOfAConnection) {
  EXPECT_TRUE(comes("a", 2ms));
  EXPECT_FALSE(comes("a", 0us, 1));
  now_ += 1s;
  EXPECT_FALSE(comes("a", 0us, 2)) << "another one waits before it";
  EXPECT_EQ(next(0us), "a1");
  EXPECT_EQ(next(0us), "a2");
}

TEST_F(ControlQueue, DropsWhatThereIsNoRoomFor) {
  EXPECT_TRUE(comes("a", 2ms));
  for (std::uint64_t id = 0; id < 10; ++id) {
    EXPECT_FALSE(comes("a", 0us, id));
  }
  EXPECT_EQ(dropped_, 6);
  EXPECT_EQ(queue_.waiting(), 4U);
}

TEST_F(ControlQueue, ABodyTakesUpRoomToo) {
  control_queue::account& payer = queue_.account_of("a", true, now_);
  waiting_message large{.identity = "a", .header = {}, .body = std::string(40'000, ' '), .judged = {}, .came = now_};
  EXPECT_TRUE(queue_.park(payer, waiting_message(large)));
  EXPECT_FALSE(queue_.park(payer, std::move(large)));
}

TEST_F(ControlQueue, TurnsGoRoundByTheTimeThatMessagesTake) {
  for (const char* const each : {"cheap", "dear"}) {
    EXPECT_TRUE(comes(each, 1100us));
  }
  int cheap = 0;
  int dear = 0;
  for (int round = 0; round < 20'000; ++round) {
    now_ += 1ms;
    (void)comes("cheap", 0us);
    (void)comes("dear", 0us);
    while (true) {
      // What the next one is of is only known when it comes: both are charged for what they took.
      const auto found = queue_.next(now_, false, [](const waiting_message&) { return false; });
      if (!found) {
        break;
      }
      const bool is_cheap = found->identity == "cheap";
      ++(is_cheap ? cheap : dear);
      queue_.done(is_cheap ? 10us : 100us, now_);
    }
  }
  // Twenty seconds earn each 200 ms.
  EXPECT_NEAR(dear, 2000, 100);
  EXPECT_NEAR(cheap, 20'000, 1000);
}

TEST_F(ControlQueue, AllTogetherTakeNoMoreThanTheirShare) {
  for (int each = 0; each < 20; ++each) {
    (void)comes("client" + std::to_string(each), 900us);
  }
  const std::size_t waiting = queue_.waiting();
  EXPECT_FALSE(comes("one more", 0us)) << "all have spent more than 10 ms together";
  EXPECT_EQ(queue_.waiting(), waiting + 1);
  EXPECT_EQ(next(0us), "");
  now_ += 1s;
  for (; queue_.waiting() > 1;) {
    EXPECT_NE(next(0us), "one more0") << "the others came before it";
  }
  EXPECT_EQ(next(0us), "one more0");
}

TEST_F(ControlQueue, AnIdleShardHandlesWhatIsNotPaidForNowAndAgain) {
  EXPECT_TRUE(comes("a", 2ms));
  EXPECT_FALSE(comes("a", 0us, 1));
  EXPECT_FALSE(comes("a", 0us, 2));
  EXPECT_EQ(next(1ms, /*idle=*/true), "a1");
  EXPECT_EQ(next(0us, /*idle=*/true), "") << "others may come while it would be handled";
  EXPECT_EQ(queue_.next_at(), now_ + 5ms);
  now_ += 5ms;
  EXPECT_EQ(next(1ms, /*idle=*/true), "a2");
  now_ += 101ms;  // for the 1 ms that it owed before, and nothing for these
  EXPECT_TRUE(comes("a", 0us));
}

TEST_F(ControlQueue, AnIdleShardMakesALongAnswerOnlyNowAndAgain) {
  EXPECT_TRUE(comes("a", 20ms));
  for (std::uint64_t id = 1; id <= 3; ++id) {
    EXPECT_FALSE(comes("a", 0us, id, message_type::get_trace));
  }
  EXPECT_EQ(next(100us, /*idle=*/true), "a1");
  EXPECT_EQ(next(0us, /*idle=*/true), "");
  EXPECT_EQ(queue_.next_at(), now_ + 20ms);
  now_ += 20ms;
  EXPECT_EQ(next(10ms, /*idle=*/true), "a2");
  now_ += 20ms;
  EXPECT_EQ(next(0us, /*idle=*/true), "") << "it takes a fiftieth of the time at most";
}

TEST_F(ControlQueue, WhatWaitsOfOneThatLeftIsVoid) {
  EXPECT_TRUE(comes("a", 2ms));
  EXPECT_FALSE(comes("a", 0us, 1));
  queue_.discard("a");
  EXPECT_EQ(queue_.waiting(), 0U);
  EXPECT_EQ(queue_.next_at(), never);
  now_ += 1s;
  EXPECT_EQ(next(0us, true), "");
}

TEST_F(ControlQueue, ForgetsThoseThatOweNothing) {
  EXPECT_TRUE(comes("a", 100us));
  EXPECT_TRUE(comes("b", 5ms));
  now_ += 20ms;
  queue_.sweep(now_);
  EXPECT_EQ(queue_.size(), 1U);
}

TEST_F(ControlQueue, StrangersBeyondTheTableShareAnAccount) {
  std::vector<std::string> names;
  for (int each = 0; each < 100; ++each) {
    control_queue::account& payer = queue_.account_of("stranger" + std::to_string(each), /*known=*/false, now_);
    queue_.charge(payer, 10us);
  }
  EXPECT_EQ(queue_.size(), 8U);
  EXPECT_TRUE(queue_.admits(queue_.account_of("client", /*known=*/true, now_), now_));
  EXPECT_EQ(queue_.size(), 9U);
}

}  // namespace
}  // namespace penstock
