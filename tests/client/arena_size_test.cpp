#include "client/cpp/arena_size.hpp"

#include <gtest/gtest.h>

namespace penstock::test {
namespace {

using link::arena_size;
constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
constexpr std::uint64_t first = 4 * mebibyte;

TEST(ArenaSize, IsLittleAtFirstAndTwiceWhatOneRequestNeeds) {
  arena_size size{first};
  size.want(32'768, 0);
  EXPECT_EQ(size.next(64 * mebibyte), first);
  size.want(6 * mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 12 * mebibyte);
  size.want(0, 0);
  EXPECT_EQ(size.next(64 * mebibyte), first);
}

TEST(ArenaSize, BeginsWithWhatTheProgramSays) {
  arena_size size{20 * mebibyte};
  size.want(mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 20 * mebibyte);
  EXPECT_EQ(size.next(16 * mebibyte), 16 * mebibyte);
  size.want(12 * mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 24 * mebibyte);
}

TEST(ArenaSize, DoublesUpToTheMost) {
  arena_size size{first};
  size.want(mebibyte, 4 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 8 * mebibyte);
  size.want(mebibyte, 40 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 64 * mebibyte);
  size.want(mebibyte, 64 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 0U);
}

TEST(ArenaSize, HalvesDownToWhatOneRequestNeeds) {
  arena_size size{first};
  size.want(3 * mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 6 * mebibyte);
  EXPECT_TRUE(size.halve());
  EXPECT_EQ(size.next(64 * mebibyte), 3 * mebibyte);
  EXPECT_FALSE(size.halve());
}

TEST(ArenaSize, IsAlwaysMoreThanThereIs) {
  arena_size size{first};
  size.want(1, 4 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 8 * mebibyte);
  EXPECT_TRUE(size.halve());
  EXPECT_EQ(size.next(64 * mebibyte), 4 * mebibyte + 1);
  EXPECT_FALSE(size.halve());
}

TEST(ArenaSize, IsNoneWhereARequestWouldFindNoRoomInTheMostEither) {
  arena_size size{first};
  size.want(65 * mebibyte, 4 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 0U);
  size.want(65 * mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 64 * mebibyte) << "others will find room";
}

}  // namespace
}  // namespace penstock::test
