// One client that floods costs the others little, and a flood of high priority does not stop a low one.

#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::testing {
namespace {

// One worker, so that the daemon and the clients have a core, and one stream: with more than there are workers, batches
// only wait ahead of others.
bench::fairness_shape busy_device() {
  bench::fairness_shape shape;
  shape.device_lines = "host_threads = 1\n";
  shape.streams = 1;
  shape.taps *= 4;
  shape.seconds = 3;
  return shape;
}

class Fairness : public ::testing::Test {
 protected:
  bench::fairness_shape shape_ = busy_device();
  daemon_process daemon_{{.backend = "host", .completion = "callback", .configuration = shape_.configuration()}};
};

// The p99 is a measurement, and other programs take this machine's cores when they like, which only ever adds to it. So
// each of the two is the least of several short runs, taken in turn; and all of that may be taken eight times.
TEST_F(Fairness, EightClientsWaitHardlyLongerBesideAFloodThanBesideAFairNinth) {
  constexpr double most = 1.5;
  constexpr std::uint64_t pairs = 3;
  std::string measured;
  double ratio = 1e9;
  for (int attempt = 0; attempt < 8 && ratio > most; ++attempt) {
    const double capacity = bench::capacity_of(daemon_.endpoint(), shape_);
    bench::fairness_run least;
    least.p99_us = least.flooded_p99_us = 1e12;
    for (std::uint64_t seed = 1; seed <= pairs; ++seed) {
      const bench::fairness_run run = bench::measure_fairness(daemon_.endpoint(), shape_, capacity, seed);
      ASSERT_GE(run.requests, 200U) << "too few for a ninety-ninth percentile";
      EXPECT_GT(run.flood_per_second, 0) << "the flood was none";
      least.p99_us = std::min(least.p99_us, run.p99_us);
      least.flooded_p99_us = std::min(least.flooded_p99_us, run.flooded_p99_us);
    }
    ratio = least.p99_ratio();
    measured += "p99 " + std::to_string(least.p99_us) + " µs, with the flood " + std::to_string(least.flooded_p99_us) +
                " µs at " + std::to_string(capacity) + " requests/s; ";
    RecordProperty("measured", measured);
  }
  EXPECT_LE(ratio, most) << measured;
  EXPECT_TRUE(raw_peer(daemon_.endpoint()).status().at("balanced"));
}

TEST_F(Fairness, LowPriorityProgressesWhileHighPriorityIsFlooded) {
  const bench::priority_run run = bench::measure_priority(daemon_.endpoint(), shape_);
  EXPECT_GT(run.alone_per_second, 0);
  EXPECT_GT(run.flooded_per_second, 0);
  RecordProperty("alone_per_second", std::to_string(run.alone_per_second));
  RecordProperty("flooded_per_second", std::to_string(run.flooded_per_second));
}

}  // namespace
}  // namespace penstock::testing
