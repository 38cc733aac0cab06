#include "tests/support/session_cut.hpp"

#include <array>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::array<std::int64_t, 3> lengths{1000, 1, 377};
constexpr step_rate eighth{8, 7};

session_cut cut_of(std::uint64_t seed) {
  return {seed, {lengths.begin(), lengths.end()}, 0, 40, eighth, 5};
}

TEST(SessionCut, GivesEveryStepOfEachSessionOnceAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    session_cut cut = cut_of(seed);
    std::array<std::int64_t, 3> taken{};
    std::array<std::int64_t, 3> produced{};
    for (session_batch batch = cut.next(6); !batch.frames.empty(); batch = cut.next(6)) {
      for (std::size_t index = 0; index < batch.frames.size(); ++index) {
        const std::size_t owner = batch.owners[index];
        ASSERT_EQ(batch.frames[index].position, taken[owner]) << "seed " << seed;
        ASSERT_LE(batch.frames[index].steps, batch.leading) << "seed " << seed;
        taken[owner] += batch.frames[index].steps;
        produced[owner] += batch.frames[index].produced;
      }
    }
    EXPECT_EQ(taken, lengths) << "seed " << seed;
    EXPECT_EQ(produced, (std::array<std::int64_t, 3>{125, 1, 48})) << "seed " << seed;
  }
}

TEST(SessionCut, LinksTheFramesOfASessionAndTurnsItsHalves) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    session_cut cut = cut_of(seed);
    std::array<std::int32_t, 3> expected_half{-1, -1, -1};
    for (session_batch batch = cut.next(6); !batch.frames.empty(); batch = cut.next(6)) {
      std::array<std::int32_t, 3> last{-1, -1, -1};
      for (std::size_t index = 0; index < batch.frames.size(); ++index) {
        const session_frame& frame = batch.frames[index];
        const std::size_t owner = batch.owners[index];
        ASSERT_EQ(frame.previous, last[owner]) << "seed " << seed;
        if (last[owner] >= 0) {
          ASSERT_EQ(batch.frames[static_cast<std::size_t>(last[owner])].next, static_cast<std::int32_t>(index));
        }
        if (expected_half[owner] >= 0) {
          ASSERT_EQ(frame.half, expected_half[owner]) << "seed " << seed;
        }
        last[owner] = static_cast<std::int32_t>(index);
        expected_half[owner] = frame.half;
      }
      for (std::size_t owner = 0; owner < last.size(); ++owner) {
        if (last[owner] >= 0) {
          ASSERT_EQ(batch.frames[static_cast<std::size_t>(last[owner])].next, -1) << "seed " << seed;
          expected_half[owner] = 1 - expected_half[owner];
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock
