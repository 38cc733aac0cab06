#include "client/cpp/arena_room.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::link {
namespace {

constexpr std::uint64_t whole = 64 * 16;

TEST(ArenaRoom, BlocksBeginAtMultiplesOf64AndDoNotOverlap) {
  arena_room room{whole};
  EXPECT_EQ(room.take(1), 0U);
  EXPECT_EQ(room.take(65), 64U);
  EXPECT_EQ(room.take(64), 192U);
  EXPECT_EQ(room.used_bytes(), 256U);
}

TEST(ArenaRoom, ABlockOfNothingHasAPlaceOfItsOwn) {
  arena_room room{whole};
  EXPECT_EQ(room.take(0), 0U);
  EXPECT_EQ(room.take(0), 64U);
}

TEST(ArenaRoom, AllOfItFitsAndNotOneByteMore) {
  arena_room room{whole};
  EXPECT_FALSE(room.take(whole + 1));
  EXPECT_FALSE(room.take(UINT64_MAX));
  EXPECT_EQ(room.take(whole), 0U);
  EXPECT_FALSE(room.take(1));
  room.leave(0);
  EXPECT_EQ(room.take(whole), 0U);
}

TEST(ArenaRoom, NothingFitsWhereThereIsNothing) {
  arena_room room{63};
  EXPECT_FALSE(room.take(0));
  EXPECT_FALSE(room.join(0, 0));
}

TEST(ArenaRoom, TheSmallestGapThatIsLargeEnoughIsTaken) {
  arena_room room{whole};
  ASSERT_EQ(room.take(256), 0U);
  ASSERT_EQ(room.take(64), 256U);
  ASSERT_EQ(room.take(128), 320U);
  ASSERT_EQ(room.take(64), 448U);
  room.leave(0);
  room.leave(320);
  EXPECT_EQ(room.take(100), 320U);
  EXPECT_EQ(room.take(130), 0U);
}

TEST(ArenaRoom, GapsThatTouchBecomeOneInWhateverOrderTheyCome) {
  for (const std::vector<std::uint64_t>& order :
       {std::vector<std::uint64_t>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    arena_room room{64 * 3};
    for (int block = 0; block < 3; ++block) {
      ASSERT_TRUE(room.take(64));
    }
    for (const std::uint64_t block : order) {
      room.leave(64 * block);
    }
    EXPECT_EQ(room.take(64 * 3), 0U);
  }
}

TEST(ArenaRoom, ABlockStaysUntilItsLastOwnerHasLeft) {
  arena_room room{whole};
  ASSERT_EQ(room.take(whole), 0U);
  ASSERT_EQ(room.join(128, 64), 0U);
  room.leave(0);
  EXPECT_FALSE(room.take(64));
  room.leave(0);
  EXPECT_EQ(room.used_bytes(), 0U);
  EXPECT_TRUE(room.take(64));
}

TEST(ArenaRoom, JoinsOnlyABlockThatHoldsAllOfTheBytes) {
  arena_room room{whole};
  ASSERT_EQ(room.take(128), 0U);
  ASSERT_EQ(room.take(128), 128U);
  EXPECT_EQ(room.join(128, 128), 128U);
  EXPECT_EQ(room.join(192, 64), 128U);
  EXPECT_FALSE(room.join(192, 65));
  EXPECT_FALSE(room.join(0, 129));
  EXPECT_FALSE(room.join(256, 1)) << "a gap";
  EXPECT_FALSE(room.join(whole, 1));
  EXPECT_FALSE(room.join(64, UINT64_MAX));
}

/// Counts what is asked of it.
class counting_resource : public std::pmr::memory_resource {
 public:
  [[nodiscard]] int count() const noexcept { return count_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++count_;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* what, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(what, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  int count_ = 0;
};

/// Takes 64 blocks, and leaves every second one first.
void fill_and_empty(arena_room& room) {
  std::vector<std::uint64_t> blocks;
  blocks.reserve(64);
  for (int each = 0; each < 64; ++each) {
    blocks.push_back(*room.take(64));
  }
  for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
    for (std::size_t each = first; each < blocks.size(); each += 2) {
      room.leave(blocks[each]);
    }
  }
}

TEST(ArenaRoom, AllocatesNothingForAsManyBlocksAsItHeldBefore) {
  counting_resource upstream;
  arena_room room{64 * 64, &upstream};
  fill_and_empty(room);
  const int before = upstream.count();
  for (int turn = 0; turn < 100; ++turn) {
    fill_and_empty(room);
  }
  EXPECT_EQ(upstream.count(), before);
  EXPECT_GT(before, 0);
}

/// The blocks as a test knows them: which bytes each has, and how many owners.
class ArenaRoomAtRandom : public ::testing::Test {
 protected:
  static constexpr std::uint64_t bytes = std::uint64_t{1} << 16U;

  void take() {
    const std::uint64_t wanted = random_() % 4096;
    const auto offset = room_.take(wanted);
    if (!offset) {
      EXPECT_GT(wanted + 64, largest_gap());
      return;
    }
    EXPECT_EQ(*offset % 64, 0U);
    const std::uint64_t size = std::max<std::uint64_t>((wanted + 63) / 64 * 64, 64);
    ASSERT_LE(*offset + size, bytes);
    const auto behind = blocks_.lower_bound(*offset);
    EXPECT_TRUE(behind == blocks_.end() || *offset + size <= behind->first);
    EXPECT_TRUE(behind == blocks_.begin() || std::prev(behind)->first + std::prev(behind)->second.size <= *offset);
    blocks_[*offset] = {size, 1};
  }

  void join() {
    const auto block = any();
    const std::uint64_t skipped = random_() % block->second.size;
    EXPECT_EQ(room_.join(block->first + skipped, random_() % (block->second.size - skipped + 1)), block->first);
    ++block->second.owners;
  }

  void leave() {
    const auto block = any();
    room_.leave(block->first);
    if (--block->second.owners == 0) {
      blocks_.erase(block);
    }
  }

  [[nodiscard]] std::uint64_t largest_gap() const {
    std::uint64_t largest = 0;
    std::uint64_t end = 0;
    for (const auto& [offset, block] : blocks_) {
      largest = std::max(largest, offset - end);
      end = offset + block.size;
    }
    return std::max(largest, bytes - end);
  }
  [[nodiscard]] std::uint64_t used() const {
    std::uint64_t sum = 0;
    for (const auto& [offset, block] : blocks_) {
      sum += block.size;
    }
    return sum;
  }

  struct known_block {
    std::uint64_t size = 0;
    int owners = 0;
  };
  std::map<std::uint64_t, known_block>::iterator any() {
    return std::next(blocks_.begin(), static_cast<std::ptrdiff_t>(random_() % blocks_.size()));
  }

  std::uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  std::map<std::uint64_t, known_block> blocks_;
  arena_room room_{bytes};
};

TEST_F(ArenaRoomAtRandom, BlocksNeverOverlapAndAllRoomComesBack) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  for (int turn = 0; turn < 20'000 && !HasFatalFailure(); ++turn) {
    const auto choice = random_() % 5;
    if (blocks_.empty() || choice < 2) {
      take();
    } else if (choice == 2) {
      join();
    } else {
      leave();
    }
    ASSERT_EQ(room_.used_bytes(), used());
  }
  while (!blocks_.empty()) {
    leave();
  }
  EXPECT_EQ(room_.take(bytes), 0U);
}

}  // namespace
}  // namespace penstock::link
