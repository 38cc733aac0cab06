#include "daemon/telemetry/device_clock.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/hand_made_plan.hpp"
#include "tests/support/manual_device.hpp"
#include "tests/support/start.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using testing::manual_device;
using testing::start;

// Two clocks: the host's, and the device's, which runs faster by so many parts in a million.
class DeviceClock : public ::testing::Test {
 protected:
  void open(double device_ppm = 0) {
    ppm_ = device_ppm;
    go_to(start);
    clock_ = std::make_unique<device_clock>(device_, [this] { return now_; });
  }
  void go_to(time_point when) {
    now_ = when;
    const auto since = static_cast<double>((when - start).count());
    device_.set_time(700us + std::chrono::nanoseconds{std::llround(since * (1 + ppm_ / 1e6))});
  }
  // Turns every so often until then.
  void turn_until(time_point end, std::chrono::nanoseconds every = 50ms) {
    for (time_point when = now_; when < end; when += every) {
      go_to(when);
      clock_->turn(when);
    }
    go_to(end);
    clock_->turn(end);
  }
  // How far the clock is off about an event that is reached now; 0 when it is right.
  [[nodiscard]] std::chrono::nanoseconds error(std::uint32_t held) {
    EXPECT_FALSE(work_->record(*point_));
    device_.finish(own_stream);
    const std::optional<time_point> said = clock_->time_of(*point_, held);
    return said ? std::chrono::abs(*said - now_) : std::chrono::nanoseconds::max();
  }
  [[nodiscard]] std::chrono::nanoseconds error_now() {
    const std::uint32_t held = clock_->hold();
    const std::chrono::nanoseconds found = error(held);
    clock_->release(held);
    return found;
  }

  static constexpr std::size_t own_stream = 0;
  static constexpr std::size_t anchors_stream = 1;

  double ppm_ = 0;
  time_point now_ = start;
  manual_device device_;
  std::unique_ptr<event> point_ = device_.open_event(true);
  std::unique_ptr<stream> work_ = device_.open_stream(stream_priority::normal);
  std::unique_ptr<device_clock> clock_;
};

TEST_F(DeviceClock, TellsWhenAnEventWasReachedByTheHostsClock) {
  open();
  go_to(start + 1500us);
  EXPECT_LE(error_now(), 1ns);
}

// A busy machine keeps the thread from seeing at once that an anchor is reached; one time of several it does not.
TEST_F(DeviceClock, BeginsWithTheAnchorThatWasSeenSoonest) {
  now_ = start;
  int asked = 0;
  clock_ = std::make_unique<device_clock>(device_, [&] {
    const bool has_waited = asked % 2 == 1;
    const int round = asked++ / 2;
    go_to(now_ + (has_waited ? (round == 4 ? 10us : 8ms) : 0us));
    return now_;
  });
  EXPECT_LE(error_now(), 5us);
}

TEST_F(DeviceClock, KeepsUpWithADeviceWhoseClockDrifts) {
  device_.let_run();
  for (const double ppm : {-80.0, 80.0}) {
    now_ = start;
    open(ppm);
    turn_until(start + 600s);
    go_to(now_ + 400ms);
    // Without new anchors it would be 48 ms by now; a second of drift is left.
    EXPECT_LE(error_now(), 100us) << ppm;
  }
}

TEST_F(DeviceClock, KeepsTheAnchorInUseWhileTheNextIsNotReached) {
  open(40);
  turn_until(start + 30s);
  EXPECT_LE(error_now(), 1300us);
}

// The device was busy and came to the anchor late: what the anchor before it says counts, not when it was asked for.
TEST_F(DeviceClock, IsNotMisledByAnAnchorThatIsReachedLate) {
  open();
  turn_until(start + 1s, 100ms);
  turn_until(start + 1200ms, 1ms);
  device_.finish(anchors_stream);
  turn_until(start + 1201ms, 1ms);
  go_to(start + 1500ms);
  EXPECT_LE(error_now(), 10ns);
}

TEST_F(DeviceClock, DoesNotMoveAnAnchorThatABatchHolds) {
  device_.let_run();
  open();
  const std::uint32_t held = clock_->hold();
  turn_until(start + 10s);
  EXPECT_LE(error(held), 10ns);
  const std::uint32_t newer = clock_->hold();
  EXPECT_NE(newer, held);
  clock_->release(newer);
  clock_->release(held);
  turn_until(start + 12s);
  EXPECT_LE(error_now(), 10ns);
}

TEST_F(DeviceClock, KnowsNoTimeOfAnEventThatIsNotReached) {
  open();
  ASSERT_FALSE(work_->record(*point_));
  const std::uint32_t held = clock_->hold();
  EXPECT_FALSE(clock_->time_of(*point_, held));
}

TEST_F(DeviceClock, DoesNotOpenOnADeviceThatRefusesEvents) {
  device_.refuse(manual_device::call::record, "cudaErrorUnknown");
  EXPECT_THROW(open(), device_error);
}

TEST_F(DeviceClock, LivesOnWhenTheDeviceIsLost) {
  device_.let_run();
  open();
  device_.lose("cudaErrorIllegalAddress");
  turn_until(start + 3s);
  // The last anchor still stands: what was reached before the fault can be told.
  EXPECT_FALSE(clock_->time_of(*point_, clock_->hold()));
}

TEST(ClockPool, LendsClocksWithEventsForEveryStepOfTheLargestPlan) {
  manual_device device;
  const std::vector<plan> plans = testing::hand_made_plans({{}, {.keeps_state = true}});
  clock_pool pool(device, plans, 2);
  batch_clock* const first = pool.claim();
  batch_clock* const second = pool.claim();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(pool.claim(), nullptr);
  EXPECT_GE(first->begins.size(), plans[1].order.steps.size());
  EXPECT_GE(first->ends.size(), plans[1].order.steps.size());
  pool.give_back(*first);
  EXPECT_EQ(pool.claim(), first);
}

}  // namespace
}  // namespace penstock
