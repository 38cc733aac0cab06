#include "daemon/net/reply_cache.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

// As long as a message's bytes can't stand in the message itself, copies of it share them.
constexpr std::size_t part_bytes = 100;

reply_parts two_parts(char fill) {
  reply_parts made;
  made.emplace_back(std::string(part_bytes, fill));
  made.emplace_back(std::string(part_bytes, static_cast<char>(fill + 1)));
  return made;
}

class RecentReplies : public ::testing::Test {
 protected:
  void keep(std::uint32_t client, std::uint64_t id, char fill = 'x') {
    reply_parts made = two_parts(fill);
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
  reply_parts made = two_parts('a');
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

reply_parts reply_of(std::size_t parts, char fill = 'x') {
  reply_parts made;
  for (std::size_t part = 0; part < parts; ++part) {
    made.emplace_back(std::string(part_bytes, fill));
  }
  return made;
}

std::string text_of(const reply_parts& parts) {
  std::string all;
  for (const zmq::message_t& part : parts) {
    all += part.to_string() + "|";
  }
  return all;
}

reply_parts found_in(session_replies& cache, std::uint64_t id) {
  reply_parts found;
  cache.find(id, found);
  return found;
}

class SessionReplies : public ::testing::Test {
 protected:
  void keep(std::uint64_t id, std::size_t parts, char fill = 'x') {
    reply_parts made = reply_of(parts, fill);
    kept_.keep(id, made);
  }
  [[nodiscard]] bool has(std::uint64_t id) { return !found_in(kept_, id).empty(); }

  // 16 places, room for 8 parts.
  session_replies kept_{16, 8 * part_bytes};
};

TEST_F(SessionReplies, HasNothingAtFirst) {
  for (std::uint64_t id = 0; id < 40; ++id) {
    EXPECT_FALSE(has(id)) << id;
  }
}

TEST_F(SessionReplies, GivesBackWhatItKept) {
  reply_parts made;
  made.emplace_back(std::string("head"));
  made.emplace_back(std::string(part_bytes, 'a'));
  kept_.keep(7, made);
  EXPECT_EQ(text_of(found_in(kept_, 7)), "head|" + std::string(part_bytes, 'a') + "|");
  EXPECT_EQ(text_of(found_in(kept_, 7)), text_of(made)) << "and again, and what was kept is as before";
  EXPECT_FALSE(has(23)) << "of the same place";
}

TEST_F(SessionReplies, SharesTheBytesAndCopiesNone) {
  reply_parts made = reply_of(2);
  const std::vector<const void*> at{made[0].data(), made[1].data()};
  kept_.keep(1, made);
  reply_parts found = found_in(kept_, 1);
  reply_parts again = found_in(kept_, 1);
  for (std::size_t part = 0; part < 2; ++part) {
    EXPECT_EQ(made[part].data(), at[part]);
    EXPECT_EQ(found[part].data(), at[part]);
    EXPECT_EQ(again[part].data(), at[part]);
  }
}

TEST_F(SessionReplies, KeepsWhatItGaveOutAliveAfterItIsOverwritten) {
  keep(1, 2, 'a');
  const reply_parts found = found_in(kept_, 1);
  keep(17, 2, 'b');
  EXPECT_FALSE(has(1));
  EXPECT_EQ(found[0].to_string(), std::string(part_bytes, 'a'));
}

TEST_F(SessionReplies, AreKeptUpToTheBudgetAndTheOldestGoFirst) {
  keep(1, 3);
  keep(2, 3);
  keep(3, 2);
  EXPECT_TRUE(has(1) && has(2) && has(3)) << "that is the budget exactly";
  keep(4, 1);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(has(2) && has(3) && has(4));
  keep(5, 3);
  EXPECT_FALSE(has(2));
  EXPECT_TRUE(has(3) && has(4) && has(5));
}

TEST_F(SessionReplies, KeepsOneSessionReplyAsLargeAsTheBudget) {
  keep(1, 1);
  keep(2, 8);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(has(2));
  EXPECT_TRUE(kept_.takes(8 * part_bytes));
}

TEST_F(SessionReplies, KeepsNoneThatIsLargerAndForgetsWhatItsPlaceHeld) {
  EXPECT_FALSE(kept_.takes(8 * part_bytes + 1));
  keep(1, 1);
  keep(2, 1);
  keep(17, 9);
  EXPECT_FALSE(has(1));
  EXPECT_FALSE(has(17));
  EXPECT_TRUE(has(2)) << "nobody else's goes for nothing";
}

TEST_F(SessionReplies, GivesTheBudgetBackOfWhatIsOverwritten) {
  for (std::uint64_t round = 0; round < 100; ++round) {
    keep(1 + 16 * round, 8);
    ASSERT_TRUE(has(1 + 16 * round));
  }
  keep(1, 9);  // it is too large, and takes the place: the whole budget is free
  keep(2, 8);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(has(2));
}

TEST_F(SessionReplies, KeepsNothingWithoutABudget) {
  session_replies none(4, 0);
  reply_parts made = reply_of(1);
  none.keep(1, made);
  EXPECT_TRUE(found_in(none, 1).empty());
}

// What is kept when session replies of any size come in any order of ids: written down as a list.
TEST_F(SessionReplies, HoldsWhatAListWouldHold) {
  struct kept {
    std::uint64_t id;
    std::size_t parts;
  };
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::deque<kept> expected;
    session_replies tried(16, 8 * part_bytes);
    for (int step = 0; step < 4000; ++step) {
      const kept next{random() % 64, 1 + random() % 10};
      std::erase_if(expected, [&](const kept& each) { return each.id % 16 == next.id % 16; });
      if (next.parts <= 8) {
        expected.push_back(next);
      }
      std::size_t total = 0;
      for (const kept& each : expected) {
        total += each.parts;
      }
      for (; total > 8; expected.pop_front()) {
        total -= expected.front().parts;
      }
      reply_parts made = reply_of(next.parts);
      tried.keep(next.id, made);
      std::map<std::uint64_t, std::size_t> sizes;
      for (const kept& each : expected) {
        sizes[each.id] = each.parts;
      }
      for (std::uint64_t id = 0; id < 64; ++id) {
        ASSERT_EQ(found_in(tried, id).size(), sizes.contains(id) ? sizes[id] : 0U) << "id " << id << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace penstock
