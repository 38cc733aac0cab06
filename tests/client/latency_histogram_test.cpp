#include "client/cli/latency_histogram.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

using std::chrono::nanoseconds;

TEST(LatencyHistogram, IsZeroWhenEmpty) {
  const latency_histogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.max().count(), 0);
  EXPECT_EQ(histogram.mean().count(), 0);
  EXPECT_EQ(histogram.percentile(99).count(), 0);
}

TEST(LatencyHistogram, SmallLatenciesAreExact) {
  latency_histogram histogram;
  for (int each = 1; each <= 60; ++each) {
    histogram.record(nanoseconds{each});
  }
  EXPECT_EQ(histogram.percentile(50).count(), 30);
  EXPECT_EQ(histogram.percentile(100).count(), 60);
  EXPECT_EQ(histogram.percentile(0).count(), 1);
  EXPECT_EQ(histogram.mean().count(), 31);
}

TEST(LatencyHistogram, TakesTheLargestAndTheNegative) {
  latency_histogram histogram;
  histogram.record(nanoseconds::max());
  EXPECT_EQ(histogram.percentile(100), nanoseconds::max());
  histogram.record(nanoseconds{-5});
  EXPECT_EQ(histogram.percentile(1).count(), 0);
}

TEST(LatencyHistogram, PercentilesAreThoseOfTheSortedValuesWithinABucket) {
  std::mt19937_64 random{7};
  std::lognormal_distribution<double> latency{std::log(80e3), 1.5};
  latency_histogram histogram;
  std::vector<std::int64_t> all(20'000);
  for (std::int64_t& each : all) {
    each = static_cast<std::int64_t>(latency(random));
    histogram.record(nanoseconds{each});
  }
  std::sort(all.begin(), all.end());
  for (const double percent : {1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * static_cast<double>(all.size())));
    const auto exact = static_cast<double>(all[rank - 1]);
    const auto got = static_cast<double>(histogram.percentile(percent).count());
    EXPECT_GE(got, exact) << percent;
    EXPECT_LE(got, exact * (1 + 1.0 / 64)) << percent;
  }
  EXPECT_EQ(histogram.max().count(), all.back());
}

TEST(LatencyHistogram, MergedIsAsIfAllHadBeenRecordedInOne) {
  latency_histogram one;
  latency_histogram two;
  latency_histogram both;
  for (int each = 0; each < 1000; ++each) {
    (each % 3 == 0 ? one : two).record(nanoseconds{each * each});
    both.record(nanoseconds{each * each});
  }
  one.merge(two);
  EXPECT_EQ(one.count(), both.count());
  EXPECT_EQ(one.percentile(75), both.percentile(75));
  EXPECT_EQ(one.max(), both.max());
  EXPECT_EQ(one.mean(), both.mean());
}

}  // namespace
}  // namespace penstock::cli
