#include "daemon/egress/recent_replies.hpp"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

namespace penstock {
namespace {

// As long as a message's bytes can't stand in the message itself, copies of it share them.
constexpr std::size_t part_bytes = 100;

reply_parts reply_of(char fill) {
  reply_parts made;
  made.emplace_back(std::string(part_bytes, fill));
  made.emplace_back(std::string(part_bytes, static_cast<char>(fill + 1)));
  return made;
}

class RecentReplies : public ::testing::Test {
 protected:
  void keep(std::uint32_t client, std::uint64_t id, char fill = 'x') {
    reply_parts made = reply_of(fill);
    kept_.keep(client, id, made);
  }
  std::string found(std::uint32_t client, std::uint64_t id) {
    reply_parts parts;
    parts.emplace_back(std::string("of a request before"));
    kept_.find(client, id, parts);
    std::string all;
    for (const zmq::message_t& part : parts) {
      all += part.to_string().substr(0, 2);
    }
    return all;
  }

  recent_replies kept_;
};

TEST_F(RecentReplies, HaveNothingAtFirst) {
  for (std::uint64_t id = 0; id < 2000; ++id) {
    ASSERT_EQ(found(0, id), "") << id;
  }
}

TEST_F(RecentReplies, AreEachTheirClients) {
  keep(0, 7, 'a');
  keep(1, 7, 'c');
  EXPECT_EQ(found(0, 7), "aabb");
  EXPECT_EQ(found(1, 7), "ccdd");
  EXPECT_EQ(found(0, 7), "aabb") << "and again";
  EXPECT_EQ(found(2, 7), "");
  EXPECT_EQ(found(0, 8), "");
}

TEST_F(RecentReplies, ShareTheBytes) {
  reply_parts made = reply_of('a');
  const void* const at = made[0].data();
  kept_.keep(3, 1, made);
  reply_parts parts;
  kept_.find(3, 1, parts);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].data(), at);
  EXPECT_EQ(made[0].data(), at);
}

// A client that repeats all that it has in flight finds most of it, whichever number it began to count at.
TEST_F(RecentReplies, HoldTheLastHundredsOfIdsThatCountUp) {
  for (const std::uint64_t first : {1ULL, 1000ULL, 0xFFFF'0000'0000ULL, 0x1234'5678'9ABC'DEF0ULL}) {
    for (std::uint64_t id = first; id < first + 5000; ++id) {
      keep(5, id);
    }
    for (std::uint64_t id = first + 4500; id < first + 5000; ++id) {
      ASSERT_NE(found(5, id), "") << id;
    }
  }
}

TEST_F(RecentReplies, AreFoundByTheLastOneOfAnId) {
  keep(0, 7, 'a');
  keep(0, 7, 'c');
  EXPECT_EQ(found(0, 7), "ccdd");
}

TEST_F(RecentReplies, AreGoneOnceRemoved) {
  keep(0, 7);
  kept_.remove(1, 7);
  kept_.remove(0, 8);
  EXPECT_NE(found(0, 7), "");
  kept_.remove(0, 7);
  EXPECT_EQ(found(0, 7), "");
}

TEST_F(RecentReplies, AreForgottenWithTheirClient) {
  for (std::uint64_t id = 0; id < 20; ++id) {
    keep(0, id);
    keep(1, id);
  }
  kept_.forget(0);
  std::size_t others = 0;
  for (std::uint64_t id = 0; id < 20; ++id) {
    EXPECT_EQ(found(0, id), "") << id;
    others += found(1, id).empty() ? 0U : 1U;
  }
  EXPECT_GE(others, 18U) << "but for those whose place another took";
}

}  // namespace
}  // namespace penstock
