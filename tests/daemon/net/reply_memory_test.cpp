#include "daemon/net/reply_memory.hpp"

#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::size_t limit = 1000000;

zmq::message_t message(std::size_t bytes) {
  return zmq::message_t(std::string(bytes, 'x'));
}

TEST(ReplyMemory, CountsAPartUntilItsLastHolderLetsGo) {
  memory_budget budget(limit);
  reply_memory memory(budget);
  reply_memory::of_client client(memory);
  std::optional<zmq::message_t> first(client.hold(message(5000)));
  std::optional<zmq::message_t> second(std::in_place);
  second->copy(*first);
  EXPECT_EQ(budget.used(), 5000U);
  first.reset();
  EXPECT_EQ(second->to_string(), std::string(5000, 'x'));
  EXPECT_EQ(client.held(), 5000U);
  second.reset();
  EXPECT_EQ(client.held(), 0U);
  EXPECT_EQ(budget.used(), 0U);
}

TEST(ReplyMemory, PartsOutliveIt) {
  memory_budget budget(limit);
  std::optional<reply_memory> memory(std::in_place, budget);
  std::optional<reply_memory::of_client> client(std::in_place, *memory);
  std::optional<zmq::message_t> part(client->hold(message(5000)));
  client.reset();
  memory.reset();
  EXPECT_EQ(budget.used(), 5000U);
  part.reset();
  EXPECT_EQ(budget.used(), 0U);
}

TEST(ReplyMemory, TakesPartsBackFromOtherThreads) {
  memory_budget budget(limit);
  reply_memory memory(budget);
  reply_memory::of_client client(memory);
  for (int round = 0; round < 100; ++round) {
    std::vector<zmq::message_t> parts;
    for (int part = 0; part < 100; ++part) {
      parts.push_back(client.hold(message(5000)));
    }
    std::thread([gone = std::move(parts)] {}).join();
    EXPECT_EQ(client.held(), 0U);
  }
}

// Each of those that do not read takes an eighth of what the others have left.
TEST(ReplyMemory, LeavesRoomForAClientThatReadsHoweverManyDoNot) {
  memory_budget budget(limit);
  reply_memory memory(budget);
  std::deque<reply_memory::of_client> slow;
  std::vector<zmq::message_t> unread;
  constexpr std::size_t reply = 5000;
  for (int client = 0; client < 20; ++client) {
    reply_memory::of_client& one = slow.emplace_back(memory);
    while (one.has_room(reply)) {
      unread.push_back(one.hold(message(reply)));
    }
  }
  EXPECT_LE(budget.used(), limit);
  EXPECT_TRUE(reply_memory::of_client(memory).has_room(reply));
}

TEST(ReplyMemory, HasRoomForOneLargeReplyThatIsLeft) {
  memory_budget budget(limit);
  reply_memory memory(budget);
  const reply_memory::of_client client(memory);
  EXPECT_TRUE(client.has_room(limit));
  EXPECT_FALSE(client.has_room(limit + 1));
}

}  // namespace
}  // namespace penstock
