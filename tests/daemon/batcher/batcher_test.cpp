#include "daemon/batcher/batcher.hpp"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/start.hpp"

namespace penstock {
namespace {

using std::chrono::microseconds;
using testing::start;

struct decision_row {
  const char* name;
  std::int64_t frames;
  wheel_room room;
  microseconds waited;  ///< of the oldest frame; max_delay is 500 µs, max_frames 8
  std::optional<close_reason> expected;
};

class Decide : public ::testing::TestWithParam<decision_row> {};

TEST_P(Decide, FollowsTheTable) {
  const decision_row& row = GetParam();
  const batch_fill fill{row.frames, 8, row.frames == 0 ? never : start, microseconds{500}};
  EXPECT_EQ(decide(fill, row.room, start + row.waited), row.expected);
}

constexpr std::optional<close_reason> stays_open = std::nullopt;

INSTANTIATE_TEST_SUITE_P(
    Batcher, Decide,
    ::testing::Values(
        decision_row{"NothingClosesWhenEmptyAndIdle", 0, wheel_room::idle, microseconds{0}, stays_open},
        decision_row{"NothingClosesWhenEmptyAndLate", 0, wheel_room::some, microseconds{9000}, stays_open},
        decision_row{"AnIdleStreamTakesOneFrameAtOnce", 1, wheel_room::idle, microseconds{0}, close_reason::idle},
        decision_row{"AnIdleStreamComesBeforeTheDelay", 1, wheel_room::idle, microseconds{9000}, close_reason::idle},
        decision_row{"ABusyWheelLetsTheBatchGrow", 7, wheel_room::some, microseconds{499}, stays_open},
        decision_row{"TheDelayEndsToTheMicrosecond", 1, wheel_room::some, microseconds{500}, close_reason::delay},
        decision_row{"ALateBatchGrowsWhileThereIsNoRoom", 7, wheel_room::none, microseconds{9000}, stays_open},
        decision_row{"AFullBatchClosesWithoutRoom", 8, wheel_room::none, microseconds{0}, close_reason::full},
        decision_row{"AFullBatchClosesBehindAnother", 8, wheel_room::some, microseconds{0}, close_reason::full},
        decision_row{"FullIsTheReasonBeforeIdle", 8, wheel_room::idle, microseconds{0}, close_reason::full},
        decision_row{"FullIsTheReasonBeforeDelay", 8, wheel_room::some, microseconds{9000}, close_reason::full}),
    [](const ::testing::TestParamInfo<decision_row>& row) { return std::string(row.param.name); });

TEST(NextDecision, IsNeverWithoutFrames) {
  EXPECT_EQ(next_decision({}), never);
}

TEST(NextDecision, IsWhenTheDelayOfTheOldestFrameRunsOut) {
  EXPECT_EQ(next_decision({3, 8, start, microseconds{500}}), start + microseconds{500});
}

TEST(NextDecision, IsTheFirstMomentAtWhichADelayCloses) {
  const batch_fill fill{1, 8, start, microseconds{500}};
  const time_point then = next_decision(fill);
  EXPECT_FALSE(decide(fill, wheel_room::some, then - std::chrono::nanoseconds{1}));
  EXPECT_TRUE(decide(fill, wheel_room::some, then));
}

TEST(NextDecision, OfNoDelayIsAtOnce) {
  const batch_fill fill{1, 8, start, microseconds{0}};
  EXPECT_EQ(decide(fill, wheel_room::some, start), close_reason::delay);
}

}  // namespace
}  // namespace penstock
