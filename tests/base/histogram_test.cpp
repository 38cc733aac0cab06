#include "base/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::nanoseconds;

// The sample of which `part` are not larger, found by sorting.
std::int64_t sorted_quantile(std::vector<std::int64_t> samples, double part) {
  std::sort(samples.begin(), samples.end());
  const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(samples.size())));
  return samples[std::max<std::size_t>(rank, 1) - 1];
}

TEST(TimeHistogram, GivesQuantilesOfSortedSamplesWithinASixteenth) {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> spread(std::log(80e3), 2.0);
  time_histogram times;
  std::vector<std::int64_t> samples;
  double sum = 0;
  for (int each = 0; each < 20'000; ++each) {
    samples.push_back(static_cast<std::int64_t>(spread(random)));
    sum += static_cast<double>(samples.back());
    times.record(nanoseconds{samples.back()});
  }
  for (const double part : {0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const std::int64_t exact = sorted_quantile(samples, part);
    EXPECT_GE(times.quantile(part).count(), exact) << part;
    EXPECT_LE(static_cast<double>(times.quantile(part).count()), static_cast<double>(exact) * 17 / 16) << part;
  }
  EXPECT_EQ(times.count(), samples.size());
  EXPECT_EQ(times.max().count(), *std::max_element(samples.begin(), samples.end()));
  EXPECT_DOUBLE_EQ(times.sum_ns(), sum);
}

TEST(TimeHistogram, IsExactBelowSixteenNanosecondsAndAtEveryPowerOfTwo) {
  for (std::int64_t value : {0, 1, 7, 15, 16, 17, 31}) {
    time_histogram times;
    times.record(nanoseconds{value});
    times.record(std::chrono::seconds{1});
    EXPECT_EQ(times.quantile(0.5).count(), value);
  }
  for (int power = 5; power < 37; ++power) {
    time_histogram times;
    const std::int64_t value = (std::int64_t{1} << power) - 1;
    times.record(nanoseconds{value});
    times.record(std::chrono::seconds{200});
    EXPECT_EQ(times.quantile(0.5).count(), value) << power;
  }
}

TEST(TimeHistogram, CountsTimesThatAreTooLongAsTheLongest) {
  time_histogram times;
  times.record(std::chrono::hours{1});
  times.record(std::chrono::hours{2});
  EXPECT_EQ(times.quantile(0.5), std::chrono::hours{2});
  EXPECT_EQ(times.max(), std::chrono::hours{2});
}

TEST(TimeHistogram, TakesTimesBelowZeroForZeroAndIsEmptyAtFirst) {
  time_histogram times;
  EXPECT_EQ(times.quantile(0.99), nanoseconds{0});
  times.record(nanoseconds{-5}, 3);
  EXPECT_EQ(times.count(), 3U);
  EXPECT_EQ(times.max(), nanoseconds{0});
  EXPECT_DOUBLE_EQ(times.sum_ns(), 0);
}

TEST(TimeHistogram, CountsRepeatedTimesAsOftenAsTheyCame) {
  time_histogram times;
  times.record(nanoseconds{10}, 99);
  times.record(nanoseconds{1000}, 1);
  EXPECT_EQ(times.quantile(0.99).count(), 10);
  EXPECT_EQ(times.quantile(0.995).count(), 1000);
  EXPECT_DOUBLE_EQ(times.sum_ns(), 1990);
  times.record(nanoseconds{5000}, 0);
  EXPECT_EQ(times.max().count(), 1000);
}

TEST(TimeHistogram, CutsCoarselyAtTheEndsThatAreGiven) {
  using namespace std::chrono_literals;
  const std::vector<nanoseconds> ends{10us, 100us, 1s};
  time_histogram times;
  times.record(3us);
  times.record(9us, 2);
  times.record(50us);
  times.record(999ms);  // in a bucket that reaches beyond 1 s
  times.record(200s);
  EXPECT_EQ(times.coarse(ends), (std::vector<std::uint64_t>{3, 1, 0, 2}));
  EXPECT_EQ(time_histogram().coarse(ends), (std::vector<std::uint64_t>{0, 0, 0, 0}));
}

TEST(TimeHistogram, ShowsTheBucketsThatAreNotEmptyUpwards) {
  time_histogram times;
  times.record(nanoseconds{1'000'000}, 4);
  times.record(nanoseconds{7});
  std::vector<std::pair<std::int64_t, std::uint64_t>> seen;
  times.for_each_bucket([&](nanoseconds end, std::uint64_t count) { seen.emplace_back(end.count(), count); });
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], (std::pair<std::int64_t, std::uint64_t>{7, 1}));
  EXPECT_EQ(seen[1].second, 4U);
  EXPECT_GE(seen[1].first, 1'000'000);
  EXPECT_LE(seen[1].first, 1'062'500);
}

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
  for (const double percent : {1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const auto exact = static_cast<double>(sorted_quantile(all, percent / 100));
    const auto got = static_cast<double>(histogram.percentile(percent).count());
    EXPECT_GE(got, exact) << percent;
    EXPECT_LE(got, exact * (1 + 1.0 / 64)) << percent;
  }
  EXPECT_EQ(histogram.max().count(), *std::max_element(all.begin(), all.end()));
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
}  // namespace penstock
