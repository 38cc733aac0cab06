#include "client/cpp/arena.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/client/scripted_arena.hpp"

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
  EXPECT_THROW((void)arena::map(link::file_descriptor{}, 1, page), std::runtime_error);
}

TEST(Arena, WhatIsWrittenIsInTheMemory) {
  const auto memory = make_memory(page);
  const auto here = arena::map(memory, 1, page);
  const auto there = arena::map(memory, 1, page);
  const arena_block skipped = here->take(64);
  const arena_block written = here->take(64);
  std::fill_n(written.data(), 64, std::byte{7});
  const arena_block read = there->take(128);
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
