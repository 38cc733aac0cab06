#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/shard/dispatcher.hpp"
#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using testing::dispatch_rig;
using testing::plan_wish;
using testing::rig_shape;

// A pipeline of low and one of high priority, each with a stream of its own.
class DispatcherPriority : public ::testing::TestWithParam<completion_mode> {
 protected:
  static constexpr std::uint32_t low = 0;
  static constexpr std::uint32_t high = 1;

  void start(std::size_t slots) {
    rig_.emplace(rig_shape{slots, 1, GetParam()}, std::vector{plan_wish{.priority = stream_priority::low},
                                                              plan_wish{.priority = stream_priority::high}});
  }
  // A batch of its own.
  request& submit(std::uint32_t pipeline) {
    request& made = rig_->submit(++ids_, {.frames = 8, .pipeline = pipeline});
    rig_->settle();
    return made;
  }
  // Both streams busy, and a full batch of each behind; the low one came that much earlier. Returns whether the high
  // one is launched first when both streams have room.
  bool high_launches_first(milliseconds earlier) {
    start(8);
    submit(low);
    submit(low);
    const request& waiting_low = submit(low);
    rig_->now += earlier;
    submit(high);
    submit(high);
    const request& waiting_high = submit(high);
    EXPECT_EQ(waiting_low.home, nullptr) << "no slot before a stream has room";
    EXPECT_EQ(waiting_high.home, nullptr);
    for (const std::uint32_t stream : {low, high, low, high}) {
      rig_->device.finish(stream);
    }
    rig_->settle();
    EXPECT_NE(waiting_low.home->launch, 0U);
    EXPECT_NE(waiting_high.home->launch, 0U);
    const bool first = waiting_high.home->launch < waiting_low.home->launch;
    rig_->end_in_peace();
    return first;
  }
  [[nodiscard]] std::uint64_t results(std::uint32_t pipeline) {
    return rig_->book.of_pipeline(pipeline).requests.results;
  }

  std::optional<dispatch_rig> rig_;
  std::uint64_t ids_ = 0;
};

TEST_P(DispatcherPriority, AFullBatchOfTheHigherOneLaunchesFirst) {
  EXPECT_TRUE(high_launches_first(milliseconds{0}));
  EXPECT_TRUE(high_launches_first(milliseconds{19})) << "within its head start";
}

TEST_P(DispatcherPriority, AFullBatchThatHasWaitedLongerThanTheHeadStartLaunchesFirst) {
  EXPECT_FALSE(high_launches_first(milliseconds{21}));
}

TEST_P(DispatcherPriority, BusyStreamsOfTheHigherOneKeepNoBatchFromTheLowerOnes) {
  start(8);
  submit(high);
  submit(high);
  submit(high);
  const request& made = submit(low);
  EXPECT_NE(made.home->launch, 0U);
  rig_->finish(low);
  EXPECT_EQ(results(low), 1U);
  rig_->end_in_peace();
}

TEST_P(DispatcherPriority, TheLowerOneProgressesUnderEndlessWorkOfTheHigher) {
  start(3);
  for (int more = 0; more < 6; ++more) {
    submit(high);
    submit(low);
  }
  for (int round = 0; round < 300; ++round) {
    rig_->now += milliseconds{1};
    submit(high);
    rig_->finish(high);
    if (round % 2 == 0) {
      submit(low);
    }
    rig_->finish(low);
  }
  EXPECT_GT(results(high), 100U);
  EXPECT_GT(results(low), 100U);
  rig_->end_in_peace();
}

INSTANTIATE_TEST_SUITE_P(Modes, DispatcherPriority, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock
