#include "daemon/timeline/sampling.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/start.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using testing::start;

// When batches that come once every `step` are timed.
std::vector<time_point> taken(sampling& of, time_point from, std::chrono::nanoseconds step, std::chrono::seconds span) {
  std::vector<time_point> all;
  for (time_point now = from; now < from + span; now += step) {
    if (of.take(now)) {
      all.push_back(now);
    }
  }
  return all;
}

TEST(Sampling, TakesSoManyASecondEvenlySpread) {
  sampling rate(300);
  const std::vector<time_point> all = taken(rate, start, 70us, 10s);
  EXPECT_NEAR(static_cast<double>(all.size()), 3000, 1);
  for (std::size_t each = 1; each < all.size(); ++each) {
    EXPECT_NEAR(static_cast<double>((all[each] - all[each - 1]).count()), 1e9 / 300, 70e3);
  }
}

TEST(Sampling, GoesOnAtAnotherRateAndAtNone) {
  sampling rate(300);
  EXPECT_NEAR(static_cast<double>(taken(rate, start, 70us, 1s).size()), 300, 1);
  rate.set_rate(0);
  EXPECT_TRUE(taken(rate, start + 1s, 70us, 1s).empty());
  rate.set_rate(50);
  EXPECT_NEAR(static_cast<double>(taken(rate, start + 2s, 70us, 1s).size()), 50, 1);
}

TEST(Sampling, TakesEveryBatchThatComesLessOften) {
  sampling rate(300);
  EXPECT_EQ(taken(rate, start, 10ms, 1s).size(), 100U);
}

TEST(Sampling, DoesNotMakeUpForAQuietTime) {
  sampling rate(10);
  EXPECT_TRUE(rate.take(start));
  EXPECT_EQ(taken(rate, start + 1h, 1ms, 1s).size(), 10U);
}

TEST(Sampling, TakesNoneAtZeroASecond) {
  sampling rate(0);
  EXPECT_TRUE(taken(rate, start, 1ms, 1s).empty());
}

TEST(Sampling, TakesNoneDuringAPause) {
  sampling rate(1000);
  rate.pause(start + 500ms);
  EXPECT_FALSE(rate.take(start + 499ms));
  EXPECT_TRUE(rate.take(start + 500ms));
  rate.pause(start);
  EXPECT_TRUE(rate.take(start + 501ms));
}

}  // namespace
}  // namespace penstock
