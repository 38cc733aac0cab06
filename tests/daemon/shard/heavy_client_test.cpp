#include <chrono>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using testing::dispatch_rig;

// Eight streams, batches of one frame that take as long as the test says, and one client with far more waiting than the
// device can do.
class HeavyClient : public ::testing::Test {
 protected:
  static constexpr std::uint64_t flooded = 400;

  HeavyClient() {
    for (std::uint64_t id = 1; id <= flooded; ++id) {
      rig_.submit(id, {}, "heavy");
    }
    rig_.settle();
  }
  // Another batch is done, after so long; it is the oldest one.
  void finish_one(std::chrono::nanoseconds after = 5ms) {
    rig_.now += after;
    rig_.finish(next_++ % streams);
  }
  [[nodiscard]] std::uint64_t heavy_results() const { return rig_.client("heavy").results; }

  static constexpr std::size_t streams = 8;
  mutable dispatch_rig rig_{{.slots = 32, .streams = streams}, {{.max_frames = 1}}};
  std::size_t next_ = 0;
  std::uint64_t light_ = 0;
};

TEST_F(HeavyClient, HasTheWholeDeviceWhileItIsAlone) {
  for (int batch = 0; batch < 50; ++batch) {
    finish_one();
    EXPECT_GE(rig_.streams.in_flight(), streams);
  }
}

TEST_F(HeavyClient, LeavesRoomForALightOneThatStartsAtOnce) {
  for (int batch = 0; batch < 20; ++batch) {
    finish_one();
  }
  // The first comes while the device is still full of what was there before it.
  rig_.submit(++light_, {}, "light");
  for (int batch = 0; batch < 12; ++batch) {
    finish_one();
  }
  ASSERT_EQ(rig_.replies(1, "light"), 1U);
  for (int round = 0; round < 20; ++round) {
    const request& asked = rig_.submit(++light_, {}, "light");
    rig_.settle();
    EXPECT_EQ(asked.step, request_step::executing);
    EXPECT_LE(rig_.streams.in_flight(), 1 + streams / 2);
    while (rig_.replies(light_, "light") == 0) {
      finish_one(1ms);
    }
  }
}

TEST_F(HeavyClient, HasItsTurnHoweverManyLightOnesThereAre) {
  constexpr int rounds = 100;
  const std::uint64_t before = heavy_results();
  for (int round = 0; round < rounds; ++round) {
    for (const char* const name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
      rig_.submit(static_cast<std::uint64_t>(round) + 1, {}, name);
      finish_one();
    }
  }
  EXPECT_GE(heavy_results() - before, static_cast<std::uint64_t>(rounds) * 8 / 10);
}

TEST_F(HeavyClient, HasTheWholeDeviceAgainWhenTheLightOnesHaveGone) {
  rig_.submit(++light_, {}, "light");
  for (int batch = 0; batch < 100; ++batch) {
    finish_one();
  }
  EXPECT_EQ(rig_.streams.in_flight(), streams);
}

TEST_F(HeavyClient, IsNotHeldBackWhereBatchesAreShort) {
  for (int batch = 0; batch < 50; ++batch) {
    rig_.submit(++light_, {}, "light");
    finish_one(10us);
    EXPECT_GE(rig_.streams.in_flight(), streams);
  }
}

}  // namespace
}  // namespace penstock
