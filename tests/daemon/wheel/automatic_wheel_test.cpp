#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "tests/daemon/wheel/wheel_fixture.hpp"

namespace penstock {
namespace {

class AutomaticWheel : public testing::wheel_fixture {
 protected:
  // One batch, from its launch to its completion; whether the shard had to ask for its end.
  bool polls_for_batch_of(std::chrono::nanoseconds span) {
    EXPECT_FALSE(wheel_->launch(batch_of(std::string(16, 'x')), now_).what);
    const bool polls = wheel_->polling();
    device_.finish_all();
    now_ += span;
    for (slot* const each : completions()) {
      wheel_->retire(*each, now_);
      ring::drop(*each);
    }
    slots_->collect();
    EXPECT_FALSE(wheel_->polling());
    EXPECT_EQ(wheel_->in_flight(), 0U);
    return polls;
  }
  bool polls_after(std::chrono::nanoseconds span) {
    bool polls = false;
    for (int batch = 0; batch < 64; ++batch) {
      polls = polls_for_batch_of(span);
    }
    return polls;
  }

 private:
  time_point now_ = start;
};

TEST_P(AutomaticWheel, PollsForShortBatchesAndHasCallbacksForLongOnes) {
  EXPECT_TRUE(polls_for_batch_of({})) << "nothing is known yet";
  EXPECT_TRUE(polls_after(wheel::long_batch / 2));
  EXPECT_FALSE(polls_after(2 * wheel::long_batch));
  EXPECT_TRUE(polls_after(wheel::long_batch / 2));
}

TEST_P(AutomaticWheel, HasCallbacksWhereEventsAreNoQuicker) {
  make_wheel(false);
  EXPECT_FALSE(polls_for_batch_of({}));
  EXPECT_FALSE(polls_after(wheel::long_batch / 2));
}

INSTANTIATE_TEST_SUITE_P(Mode, AutomaticWheel, ::testing::Values(completion_mode::automatic));

}  // namespace
}  // namespace penstock
