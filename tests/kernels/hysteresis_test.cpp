#include "kernels/hysteresis.hpp"

#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

/// A word of which about one sample in `rarity` sets or resets.
hysteresis_word random_word(std::mt19937& engine, unsigned rarity) {
  hysteresis_word word;
  for (unsigned bit = 0; bit < 32; ++bit) {
    const unsigned draw = static_cast<unsigned>(engine() % (2 * rarity));
    word.set |= (draw == 0 ? 1U : 0U) << bit;
    word.reset |= (draw == 1 ? 1U : 0U) << bit;
  }
  return word;
}

TEST(HysteresisWord, GivesTheStatesThatAWalkThroughItsSamplesGives) {
  std::mt19937 engine{20250101};
  for (int round = 0; round < 4000; ++round) {
    const hysteresis_word word = random_word(engine, 1U + static_cast<unsigned>(engine() % 40));
    for (const bool entered : {false, true}) {
      std::uint32_t before = 0;
      std::uint32_t events = 0;
      std::uint32_t starts = 0;
      bool on = entered;
      for (unsigned bit = 0; bit < 32; ++bit) {
        const bool sets = (word.set >> bit & 1U) != 0;
        const bool resets = (word.reset >> bit & 1U) != 0;
        before |= (on ? 1U : 0U) << bit;
        starts |= (sets && !on ? 1U : 0U) << bit;
        on = sets || (on && !resets);
        events |= (on ? 1U : 0U) << bit;
      }
      ASSERT_EQ(word.states_before(entered), before) << round;
      ASSERT_EQ(word.events(before), events) << round;
      ASSERT_EQ(word.starts(before), starts) << round;
    }
  }
}

/// States and starts by walking; what hysteresis_run has to compose.
struct walked {
  bool on;
  std::int32_t starts = 0;

  void take(const hysteresis_word& word) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      const bool sets = (word.set >> bit & 1U) != 0;
      starts += sets && !on ? 1 : 0;
      on = sets || (on && (word.reset >> bit & 1U) == 0);
    }
  }
};

TEST(HysteresisRun, ComposesInAnyGrouping) {
  std::mt19937 engine{20250102};
  for (int round = 0; round < 2000; ++round) {
    std::vector<hysteresis_word> words(1 + engine() % 9);
    std::vector<hysteresis_run> runs;
    for (hysteresis_word& word : words) {
      word = random_word(engine, 1U + static_cast<unsigned>(engine() % 100));
      runs.push_back(hysteresis_run::of(word));
    }
    while (runs.size() > 1) {
      const std::size_t at = engine() % (runs.size() - 1);
      runs[at] = runs[at].then(runs[at + 1]);
      runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    for (const bool entered : {false, true}) {
      walked expected{.on = entered};
      for (const hysteresis_word& word : words) {
        expected.take(word);
      }
      ASSERT_EQ(runs[0].state_from(entered), expected.on) << round;
      ASSERT_EQ(runs[0].starts_from(entered), expected.starts) << round;
    }
  }
}

TEST(HysteresisRun, OfNothingChangesNothing) {
  const hysteresis_run run{.starts = 3, .first_sets = true, .neutral = false, .leaves_on = true};
  EXPECT_EQ(hysteresis_run{}.then(run).starts, 3);
  EXPECT_EQ(run.then(hysteresis_run{}).starts, 3);
  EXPECT_TRUE(run.then(hysteresis_run{}).leaves_on);
  EXPECT_TRUE(hysteresis_run{}.state_from(true));
  EXPECT_FALSE(hysteresis_run{}.state_from(false));
}

}  // namespace
}  // namespace penstock
