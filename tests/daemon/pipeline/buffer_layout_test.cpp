#include "daemon/pipeline/buffer_layout.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

/// Buffers and which of them may not share memory.
struct request {
  explicit request(std::vector<std::size_t> sizes) : bytes(std::move(sizes)), conflicts(bytes.size()) {}

  [[nodiscard]] buffer_placement placed() const { return place_buffers(bytes, conflicts); }
  [[nodiscard]] std::size_t aligned(std::size_t buffer) const { return (bytes[buffer] + 255) / 256 * 256; }
  [[nodiscard]] std::size_t sum() const {
    std::size_t all = 0;
    for (std::size_t buffer = 0; buffer < bytes.size(); ++buffer) {
      all += aligned(buffer);
    }
    return all;
  }

  std::vector<std::size_t> bytes;
  buffer_conflicts conflicts;
};

/// Every pair, compared byte range by byte range.
void expect_sound(const request& given, const buffer_placement& placed) {
  ASSERT_EQ(placed.offsets.size(), given.bytes.size());
  EXPECT_EQ(placed.bytes % 256, 0U);
  EXPECT_LE(placed.bytes, given.sum());
  for (std::size_t left = 0; left < given.bytes.size(); ++left) {
    EXPECT_EQ(placed.offsets[left] % 256, 0U);
    EXPECT_LE(placed.offsets[left] + given.bytes[left], placed.bytes);
    for (std::size_t right = left + 1; right < given.bytes.size(); ++right) {
      const bool apart = placed.offsets[left] + given.bytes[left] <= placed.offsets[right] ||
                         placed.offsets[right] + given.bytes[right] <= placed.offsets[left];
      const bool empty = given.bytes[left] == 0 || given.bytes[right] == 0;
      EXPECT_TRUE(apart || empty || !given.conflicts.between(left, right)) << "buffers " << left << " and " << right;
    }
  }
}

std::size_t random_bytes(std::mt19937& random) {
  return random() % 8 == 0 ? 0 : random() % 100'000;
}

TEST(BufferLayout, KeepsWhatIsInConflictApartForRandomRelations) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::size_t> bytes(1 + random() % 16);
    std::generate(bytes.begin(), bytes.end(), [&] { return random_bytes(random); });
    request given(std::move(bytes));
    const std::size_t share = random() % 101;
    for (std::size_t left = 0; left < given.bytes.size(); ++left) {
      for (std::size_t right = 0; right < left; ++right) {
        if (random() % 100 < share) {
          given.conflicts.add(left, right);
        }
      }
    }
    const buffer_placement placed = given.placed();
    expect_sound(given, placed);
    EXPECT_EQ(placed.offsets[0], 0U);
  }
}

TEST(BufferLayout, TakesAtLeastTheFullestMomentOfRandomLifetimes) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::size_t> bytes(1 + random() % 16);
    std::generate(bytes.begin(), bytes.end(), [&] { return random_bytes(random); });
    request given(std::move(bytes));
    std::vector<std::pair<std::size_t, std::size_t>> lives;
    std::vector<std::size_t> alive(32, 0);
    for (std::size_t buffer = 0; buffer < given.bytes.size(); ++buffer) {
      const std::size_t first = random() % 20;
      lives.emplace_back(first, first + random() % 6);
      for (std::size_t step = lives[buffer].first; step <= lives[buffer].second; ++step) {
        alive[step] += given.aligned(buffer);
      }
      for (std::size_t other = 0; other < buffer; ++other) {
        if (lives[other].first <= lives[buffer].second && lives[buffer].first <= lives[other].second) {
          given.conflicts.add(buffer, other);
        }
      }
    }
    const buffer_placement placed = given.placed();
    expect_sound(given, placed);
    EXPECT_GE(placed.bytes, *std::max_element(alive.begin(), alive.end()));
  }
}

/// Buffers of which each is in conflict with the one before it.
request chain(std::vector<std::size_t> bytes) {
  request made(std::move(bytes));
  for (std::size_t buffer = 1; buffer < made.bytes.size(); ++buffer) {
    made.conflicts.add(buffer - 1, buffer);
  }
  return made;
}

TEST(BufferLayout, ReusesMemoryAlongAChain) {
  EXPECT_EQ(chain(std::vector<std::size_t>(32, 4096)).placed().bytes, 2 * 4096U);
}

TEST(BufferLayout, PlacesAChainOfGrowingBuffersInTheLeastMemory) {
  const request given = chain({2048, 4096, 4096, 4096});
  const buffer_placement placed = given.placed();
  expect_sound(given, placed);
  EXPECT_EQ(placed.bytes, 2 * 4096U);
}

// Every other buffer of a chain from the bottom, the others down from its top: the largest sum of two
// neighbours is always enough, and never is less.
TEST(BufferLayout, ComesCloseToTheLeastMemoryForRandomChains) {
  std::mt19937 random(20240607);
  std::size_t least = 0;
  std::size_t taken = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<std::size_t> bytes(2 + random() % 12);
    std::generate(bytes.begin(), bytes.end(), [&] { return 256 * (1 + random() % 64); });
    const request given = chain(std::move(bytes));
    std::size_t neighbours = 0;
    for (std::size_t buffer = 1; buffer < given.bytes.size(); ++buffer) {
      neighbours = std::max(neighbours, given.bytes[buffer - 1] + given.bytes[buffer]);
    }
    const buffer_placement placed = given.placed();
    expect_sound(given, placed);
    EXPECT_GE(placed.bytes, neighbours);
    EXPECT_LE(placed.bytes, neighbours + neighbours / 4);
    least += neighbours;
    taken += placed.bytes;
  }
  EXPECT_LE(taken, least + least / 50) << "all chains together";
}

TEST(BufferLayout, FillsAGapBetweenTwoThatStay) {
  request given({1024, 512, 768, 512});
  for (const auto& [left, right] : {std::pair{0U, 1U}, {0U, 2U}, {1U, 2U}, {0U, 3U}, {2U, 3U}}) {
    given.conflicts.add(left, right);
  }
  const buffer_placement placed = given.placed();
  expect_sound(given, placed);
  EXPECT_EQ(placed.bytes, 1024U + 512U + 768U);
}

TEST(BufferLayout, RoundsEveryBufferUpToItsAlignment) {
  request given({1, 1, 257});
  given.conflicts.add(0, 1);
  given.conflicts.add(0, 2);
  given.conflicts.add(1, 2);
  EXPECT_EQ(given.placed().bytes, 256U + 256U + 512U);
}

TEST(BufferLayout, SharesOnePlaceAmongAllThatAreNotInConflict) {
  const buffer_placement placed = request({300, 200, 100}).placed();
  EXPECT_EQ(placed.offsets, (std::vector<std::size_t>{0, 0, 0}));
  EXPECT_EQ(placed.bytes, 512U);
}

TEST(BufferLayout, GivesNothingToNoBuffers) {
  EXPECT_EQ(request({}).placed().bytes, 0U);
}

TEST(BufferLayout, RefusesWhatNoAddressSpaceHolds) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW((void)request({most - 10}).placed(), std::length_error);
  EXPECT_THROW((void)chain({most - 1023, 1024}).placed(), std::length_error);
}

}  // namespace
}  // namespace penstock
