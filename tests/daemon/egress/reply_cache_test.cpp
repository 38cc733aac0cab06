#include "daemon/egress/reply_cache.hpp"

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

reply_parts found_in(reply_cache& cache, std::uint64_t id) {
  reply_parts found;
  cache.find(id, found);
  return found;
}

class ReplyCache : public ::testing::Test {
 protected:
  void keep(std::uint64_t id, std::size_t parts, bool of_session, char fill = 'x') {
    reply_parts made = reply_of(parts, fill);
    cache_.keep(id, made, of_session);
  }
  [[nodiscard]] bool has(std::uint64_t id) { return !found_in(cache_, id).empty(); }

  // 16 places, room for 8 parts of a session's or for half a part of each plain one.
  reply_cache cache_{16, 8 * part_bytes, part_bytes};
};

TEST_F(ReplyCache, HasNothingAtFirst) {
  for (std::uint64_t id = 0; id < 40; ++id) {
    EXPECT_FALSE(has(id)) << id;
  }
}

TEST_F(ReplyCache, GivesBackWhatItKept) {
  reply_parts made;
  made.emplace_back(std::string("head"));
  made.emplace_back(std::string(part_bytes, 'a'));
  cache_.keep(7, made, true);
  EXPECT_EQ(text_of(found_in(cache_, 7)), "head|" + std::string(part_bytes, 'a') + "|");
  EXPECT_EQ(text_of(found_in(cache_, 7)), text_of(made)) << "and again, and what was kept is as before";
  EXPECT_FALSE(has(23)) << "of the same place";
}

TEST_F(ReplyCache, SharesTheBytesAndCopiesNone) {
  reply_parts made = reply_of(2);
  const std::vector<const void*> at{made[0].data(), made[1].data()};
  cache_.keep(1, made, true);
  reply_parts found = found_in(cache_, 1);
  reply_parts again = found_in(cache_, 1);
  for (std::size_t part = 0; part < 2; ++part) {
    EXPECT_EQ(made[part].data(), at[part]);
    EXPECT_EQ(found[part].data(), at[part]);
    EXPECT_EQ(again[part].data(), at[part]);
  }
}

TEST_F(ReplyCache, KeepsWhatItGaveOutAliveAfterItIsOverwritten) {
  keep(1, 2, true, 'a');
  const reply_parts found = found_in(cache_, 1);
  keep(17, 2, true, 'b');
  EXPECT_FALSE(has(1));
  EXPECT_EQ(found[0].to_string(), std::string(part_bytes, 'a'));
}

TEST_F(ReplyCache, KeepsSessionRepliesUpToTheBudgetAndTheOldestGoFirst) {
  keep(1, 3, true);
  keep(2, 3, true);
  keep(3, 2, true);
  EXPECT_TRUE(has(1) && has(2) && has(3)) << "that is the budget exactly";
  keep(4, 1, true);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(has(2) && has(3) && has(4));
  keep(5, 3, true);
  EXPECT_FALSE(has(2));
  EXPECT_TRUE(has(3) && has(4) && has(5));
}

TEST_F(ReplyCache, KeepsOneSessionReplyAsLargeAsTheBudget) {
  keep(1, 1, true);
  keep(2, 8, true);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(has(2));
  EXPECT_TRUE(cache_.takes(8 * part_bytes));
}

TEST_F(ReplyCache, KeepsNoneThatIsLargerAndForgetsWhatItsPlaceHeld) {
  EXPECT_FALSE(cache_.takes(8 * part_bytes + 1));
  keep(1, 1, true);
  keep(2, 1, true);
  keep(17, 9, true);
  EXPECT_FALSE(has(1));
  EXPECT_FALSE(has(17));
  EXPECT_TRUE(has(2)) << "nobody else's goes for nothing";
}

TEST_F(ReplyCache, KeepsAPlainReplyOnlyWhenEveryPlaceCouldHaveOne) {
  reply_parts fits;
  fits.emplace_back(std::string(part_bytes / 2, 'p'));
  cache_.keep(1, fits, false);
  EXPECT_TRUE(has(1));
  keep(2, 1, false);
  EXPECT_FALSE(has(2)) << "16 of these are more than the budget";
}

TEST_F(ReplyCache, KeepsNoPlainReplyAboveItsOwnLimit) {
  reply_cache wide(2, 1U << 20U, part_bytes);
  reply_parts fits = reply_of(1);
  wide.keep(1, fits, false);
  EXPECT_FALSE(found_in(wide, 1).empty());
  reply_parts large = reply_of(2);
  wide.keep(2, large, false);
  EXPECT_TRUE(found_in(wide, 2).empty());
}

TEST_F(ReplyCache, DoesNotEvictSessionRepliesForPlainOnes) {
  keep(1, 8, true);
  for (std::uint64_t id = 2; id < 16; ++id) {
    reply_parts small;
    small.emplace_back(std::string(part_bytes / 2, 'p'));
    cache_.keep(id, small, false);
  }
  EXPECT_TRUE(has(1));
  EXPECT_TRUE(has(15));
}

TEST_F(ReplyCache, GivesTheBudgetBackOfWhatIsOverwritten) {
  for (std::uint64_t round = 0; round < 100; ++round) {
    keep(1 + 16 * round, 8, true);
    ASSERT_TRUE(has(1 + 16 * round));
  }
  reply_parts small;
  small.emplace_back(std::string(1, 'p'));
  cache_.keep(1, small, false);  // a plain one takes the place: the whole budget is free
  keep(2, 8, true);
  EXPECT_TRUE(has(1) && has(2));
}

TEST_F(ReplyCache, KeepsNothingWithoutABudget) {
  reply_cache none(4, 0, part_bytes);
  reply_parts made = reply_of(1);
  none.keep(1, made, true);
  none.keep(2, made, false);
  EXPECT_TRUE(found_in(none, 1).empty());
  EXPECT_TRUE(found_in(none, 2).empty());
}

// What is kept when session replies of any size come in any order of ids: written down as a list.
TEST_F(ReplyCache, HoldsWhatAListWouldHold) {
  struct kept {
    std::uint64_t id;
    std::size_t parts;
  };
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::deque<kept> expected;
    reply_cache tried(16, 8 * part_bytes, 0);
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
      tried.keep(next.id, made, true);
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
