#include "daemon/pipeline/arena.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using requests = std::vector<arena_request>;

/// Every byte-range pair that shares a step, compared one by one, step by step.
void expect_sound(const requests& given, const arena_placement& placed) {
  ASSERT_EQ(placed.offsets.size(), given.size());
  for (std::size_t left = 0; left < given.size(); ++left) {
    EXPECT_EQ(placed.offsets[left] % 256, 0U);
    EXPECT_LE(placed.offsets[left] + given[left].bytes, placed.bytes);
    for (std::size_t right = left + 1; right < given.size(); ++right) {
      bool together = false;
      for (std::size_t step = given[left].first_step; step <= given[left].last_step; ++step) {
        together = together || (step >= given[right].first_step && step <= given[right].last_step);
      }
      const bool apart = placed.offsets[left] + given[left].bytes <= placed.offsets[right] ||
                         placed.offsets[right] + given[right].bytes <= placed.offsets[left];
      const bool empty = given[left].bytes == 0 || given[right].bytes == 0;
      EXPECT_TRUE(!together || apart || empty) << "requests " << left << " and " << right;
    }
  }
}

std::size_t sum_of(const requests& given) {
  std::size_t sum = 0;
  for (const arena_request& request : given) {
    sum += (request.bytes + 255) / 256 * 256;
  }
  return sum;
}

/// No arena can be smaller than what lives in its fullest step.
std::size_t fullest_step(const requests& given) {
  std::size_t fullest = 0;
  for (const arena_request& at : given) {
    std::size_t alive = 0;
    for (const arena_request& other : given) {
      const bool lives = other.first_step <= at.first_step && at.first_step <= other.last_step;
      alive += lives ? (other.bytes + 255) / 256 * 256 : 0;
    }
    fullest = std::max(fullest, alive);
  }
  return fullest;
}

TEST(arena, KeepsWhatLivesTogetherApartForRandomLifetimes) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 500; ++round) {
    requests given(1 + random() % 24);
    for (arena_request& request : given) {
      request.bytes = random() % 8 == 0 ? 0 : random() % 100'000;
      request.first_step = random() % 20;
      request.last_step = request.first_step + random() % 6;
    }
    const arena_placement placed = place_in_arena(given);
    expect_sound(given, placed);
    EXPECT_EQ(placed.offsets[0], 0U);
    EXPECT_EQ(placed.bytes % 256, 0U);
    EXPECT_LE(placed.bytes, sum_of(given));
    EXPECT_GE(placed.bytes, fullest_step(given));
  }
}

TEST(arena, ReusesMemoryAlongAChain) {
  requests chain;
  for (std::size_t step = 0; step < 32; ++step) {
    chain.push_back({4096, step, step + 1});
  }
  EXPECT_EQ(place_in_arena(chain).bytes, 2 * 4096U);
}

TEST(arena, PlacesAChainOfGrowingBuffersInTheLeastMemory) {
  const requests chain{{2048, 0, 1}, {4096, 1, 2}, {4096, 2, 3}, {4096, 3, 4}};
  const arena_placement placed = place_in_arena(chain);
  expect_sound(chain, placed);
  EXPECT_EQ(placed.bytes, 2 * 4096U);
}

TEST(arena, FillsAGapBetweenTwoThatStay) {
  const requests given{{1024, 0, 9}, {512, 0, 1}, {768, 0, 9}, {512, 5, 6}};
  const arena_placement placed = place_in_arena(given);
  expect_sound(given, placed);
  EXPECT_EQ(placed.bytes, 1024U + 512U + 768U);
}

TEST(arena, RoundsEveryBufferUpToItsAlignment) {
  const arena_placement placed = place_in_arena(requests{{1, 0, 1}, {1, 0, 1}, {257, 0, 1}});
  EXPECT_EQ(placed.bytes, 256U + 256U + 512U);
}

TEST(arena, GivesNothingToNoRequests) {
  EXPECT_EQ(place_in_arena({}).bytes, 0U);
}

TEST(arena, RefusesWhatNoAddressSpaceHolds) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW((void)place_in_arena(requests{{most - 10, 0, 0}}), std::length_error);
  EXPECT_THROW((void)place_in_arena(requests{{most - 1023, 0, 0}, {1024, 0, 0}}), std::length_error);
}

}  // namespace
}  // namespace penstock
