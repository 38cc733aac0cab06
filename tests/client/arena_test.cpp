#include "client/cpp/arena.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/client/scripted_daemon.hpp"

namespace penstock::link {
namespace {

constexpr std::uint64_t whole = 64 * 16;

TEST(ArenaAllocator, BlocksBeginAtMultiplesOf64AndDoNotOverlap) {
  arena_allocator room{whole};
  EXPECT_EQ(room.take(1), 0U);
  EXPECT_EQ(room.take(65), 64U);
  EXPECT_EQ(room.take(64), 192U);
  EXPECT_EQ(room.used_bytes(), 256U);
}

TEST(ArenaAllocator, ABlockOfNothingHasAPlaceOfItsOwn) {
  arena_allocator room{whole};
  EXPECT_EQ(room.take(0), 0U);
  EXPECT_EQ(room.take(0), 64U);
}

TEST(ArenaAllocator, AllOfItFitsAndNotOneByteMore) {
  arena_allocator room{whole};
  EXPECT_FALSE(room.take(whole + 1));
  EXPECT_FALSE(room.take(UINT64_MAX));
  EXPECT_EQ(room.take(whole), 0U);
  EXPECT_FALSE(room.take(1));
  room.leave(0);
  EXPECT_EQ(room.take(whole), 0U);
}

TEST(ArenaAllocator, NothingFitsWhereThereIsNothing) {
  arena_allocator room{63};
  EXPECT_FALSE(room.take(0));
  EXPECT_FALSE(room.join(0, 0));
}

TEST(ArenaAllocator, TheSmallestGapThatIsLargeEnoughIsTaken) {
  arena_allocator room{whole};
  ASSERT_EQ(room.take(256), 0U);
  ASSERT_EQ(room.take(64), 256U);
  ASSERT_EQ(room.take(128), 320U);
  ASSERT_EQ(room.take(64), 448U);
  room.leave(0);
  room.leave(320);
  EXPECT_EQ(room.take(100), 320U);
  EXPECT_EQ(room.take(130), 0U);
}

TEST(ArenaAllocator, GapsThatTouchBecomeOneInWhateverOrderTheyCome) {
  for (const std::vector<std::uint64_t>& order :
       {std::vector<std::uint64_t>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    arena_allocator room{64 * 3};
    for (int block = 0; block < 3; ++block) {
      ASSERT_TRUE(room.take(64));
    }
    for (const std::uint64_t block : order) {
      room.leave(64 * block);
    }
    EXPECT_EQ(room.take(64 * 3), 0U);
  }
}

TEST(ArenaAllocator, ABlockStaysUntilItsLastOwnerHasLeft) {
  arena_allocator room{whole};
  ASSERT_EQ(room.take(whole), 0U);
  ASSERT_EQ(room.join(128, 64), 0U);
  room.leave(0);
  EXPECT_FALSE(room.take(64));
  room.leave(0);
  EXPECT_EQ(room.used_bytes(), 0U);
  EXPECT_TRUE(room.take(64));
}

TEST(ArenaAllocator, JoinsOnlyABlockThatHoldsAllOfTheBytes) {
  arena_allocator room{whole};
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
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  int count_ = 0;
};

/// Takes 64 blocks, and leaves every second one first.
void fill_and_empty(arena_allocator& room) {
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

TEST(ArenaAllocator, AllocatesNothingForAsManyBlocksAsItHeldBefore) {
  counting_resource upstream;
  arena_allocator room{64 * 64, &upstream};
  fill_and_empty(room);
  const int before = upstream.count();
  for (int turn = 0; turn < 100; ++turn) {
    fill_and_empty(room);
  }
  EXPECT_EQ(upstream.count(), before);
  EXPECT_GT(before, 0);
}

/// The blocks as a test knows them: which bytes each has, and how many owners.
class ArenaAllocatorAtRandom : public ::testing::Test {
 protected:
  static constexpr std::uint64_t bytes = std::uint64_t{1} << 16U;

  void take() {
    const std::uint64_t wanted = random_() % 4096;
    const auto offset = allocator_.take(wanted);
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
    EXPECT_EQ(allocator_.join(block->first + skipped, random_() % (block->second.size - skipped + 1)), block->first);
    ++block->second.owners;
  }

  void leave() {
    const auto block = any();
    allocator_.leave(block->first);
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
  arena_allocator allocator_{bytes};
};

TEST_F(ArenaAllocatorAtRandom, BlocksNeverOverlapAndAllRoomComesBack) {
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
    ASSERT_EQ(allocator_.used_bytes(), used());
  }
  while (!blocks_.empty()) {
    leave();
  }
  EXPECT_EQ(allocator_.take(bytes), 0U);
}

}  // namespace

}  // namespace penstock::link

namespace penstock::test {
namespace {

using link::arena;
using link::arena_block;

constexpr std::size_t page = 4096;

TEST(Arena, KnowsItsNumberAndItsSize) {
  const auto mapped = arena::map(make_memory(2 * page), 7, 2 * page);
  EXPECT_EQ(mapped->number(), 7U);
  EXPECT_EQ(mapped->bytes(), 2 * page);
  EXPECT_EQ(mapped->used_bytes(), 0U);
}

TEST(Arena, RefusesMemoryThatCouldShrink) {
  EXPECT_THROW((void)arena::map(make_memory(page, /*sealed=*/false), 1, page), std::runtime_error);
}

TEST(Arena, RefusesMemoryThatIsNotOfItsSize) {
  const auto memory = make_memory(page);
  EXPECT_THROW((void)arena::map(memory, 1, page + 1), std::runtime_error);
  EXPECT_THROW((void)arena::map(memory, 1, UINT64_MAX), std::runtime_error);
  EXPECT_THROW((void)arena::map(memory, 1, 0), std::runtime_error);
}

TEST(Arena, RefusesWhatIsNoMemory) {
  EXPECT_THROW((void)arena::map(file_descriptor{}, 1, page), std::runtime_error);
}

TEST(Arena, WhatIsWrittenIsInTheMemory) {
  const auto memory = make_memory(page);
  const auto first_mapping = arena::map(memory, 1, page);
  const auto second_mapping = arena::map(memory, 1, page);
  const arena_block skipped = first_mapping->take(64);
  const arena_block written = first_mapping->take(64);
  std::fill_n(written.data(), 64, std::byte{7});
  const arena_block read = second_mapping->take(128);
  EXPECT_EQ(written.offset(), 64U);
  EXPECT_EQ(read.data()[64], std::byte{7});
}

TEST(Arena, GivesNoRoomOnceItHasEnded) {
  const auto mapped = arena::map(make_memory(page), 1, page);
  arena_block gone = mapped->take(64);
  const arena_block kept = mapped->take(64);
  mapped->end();
  gone = {};
  EXPECT_FALSE(mapped->take(64));
  EXPECT_TRUE(mapped->block_of({kept.data(), 64})) << "another owner of what is in use";
}

TEST(Arena, ABlockKeepsTheMappingWhenTheArenaIsLetGo) {
  auto mapped = arena::map(make_memory(page), 1, page);
  const arena_block block = mapped->take(page);
  mapped.reset();
  std::fill_n(block.data(), page, std::byte{7});
  EXPECT_EQ(block.data()[page - 1], std::byte{7});
}

TEST(Arena, RoomComesBackWithTheLastOwnerOfABlock) {
  const auto mapped = arena::map(make_memory(page), 1, page);
  arena_block first = mapped->take(page);
  arena_block second = first.again();
  first = arena_block{};
  EXPECT_FALSE(mapped->take(64));
  const arena_block third = std::move(second);
  EXPECT_EQ(mapped->used_bytes(), page);
  EXPECT_TRUE(third);
}

TEST(Arena, FindsTheBlockOfBytesOfItsOwnOnly) {
  const auto mapped = arena::map(make_memory(page), 1, page);
  const arena_block block = mapped->take(256);
  const arena_block found = mapped->block_of({block.data() + 64, 192});
  ASSERT_TRUE(found);
  EXPECT_EQ(found.offset(), block.offset());
  EXPECT_FALSE(mapped->block_of({block.data() + 64, 193}));
  const std::vector<std::byte> elsewhere(256);
  EXPECT_FALSE(mapped->block_of(elsewhere));
}

TEST(Arena, ThreadsNeverShareABlock) {
  constexpr std::size_t room = 64 * 40;
  const auto mapped = arena::map(make_memory(page), 1, room);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&mapped, &wrong, mark = static_cast<std::byte>(thread)] {
      for (std::size_t turn = 0; turn < 2000; ++turn) {
        const std::size_t bytes = 1 + turn * 97 % 1000;
        const arena_block block = mapped->take(bytes);
        if (block) {
          std::fill_n(block.data(), bytes, mark);
          const arena_block again = block.again();
          wrong += std::count(again.data(), again.data() + bytes, mark) == static_cast<std::ptrdiff_t>(bytes) ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(mapped->used_bytes(), 0U);
  EXPECT_TRUE(mapped->take(room));
}

}  // namespace

}  // namespace penstock::test
