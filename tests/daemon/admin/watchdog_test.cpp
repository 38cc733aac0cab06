#include "daemon/admin/watchdog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr seconds hang_timeout{30};

shard_sign answered(std::chrono::nanoseconds standing_still) {
  return {.ended = false, .pulse = shard_pulse{.standing_still = standing_still}};
}

const shard_sign silent{.ended = false, .pulse = std::nullopt};
const shard_sign ended{.ended = true, .pulse = std::nullopt};

std::string complaint_about(const std::vector<shard_sign>& shards) {
  return watchdog(hang_timeout).complaint(shards);
}

TEST(Watchdog, IsContentWithShardsThatHaveNothingToDo) {
  EXPECT_THAT(complaint_about({answered(seconds{0}), answered(seconds{0})}), IsEmpty());
}

TEST(Watchdog, LetsABatchTakeAsLongAsTheConfigurationDoes) {
  EXPECT_THAT(complaint_about({answered(seconds{2})}), IsEmpty());
  EXPECT_THAT(complaint_about({answered(hang_timeout)}), IsEmpty());
}

TEST(Watchdog, LeavesTheShardTimeToFindTheHungBatchItself) {
  EXPECT_THAT(complaint_about({answered(hang_timeout + watchdog::margin)}), IsEmpty());
}

TEST(Watchdog, NamesTheShardWhoseDeviceFinishesNothing) {
  const shard_sign stuck = answered(hang_timeout + watchdog::margin + milliseconds{1});
  EXPECT_THAT(complaint_about({answered(seconds{0}), stuck}), HasSubstr("device of shard 1 has finished no batch"));
}

TEST(Watchdog, NamesTheShardThatDoesNotAnswer) {
  EXPECT_EQ(complaint_about({answered(seconds{0}), answered(seconds{0}), silent}), "shard 2 does not answer");
}

TEST(Watchdog, ExpectsNothingOfAShardThatHasEnded) {
  EXPECT_THAT(complaint_about({ended, answered(seconds{1})}), IsEmpty());
}

TEST(Watchdog, SeesTheSilentShardBesideOneThatHasEnded) {
  EXPECT_EQ(complaint_about({ended, silent}), "shard 1 does not answer");
}

}  // namespace
}  // namespace penstock
