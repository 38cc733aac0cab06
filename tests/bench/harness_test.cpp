// Statistics of repeated measurements, and the facts beside them.

#include "tests/bench/harness.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

TEST(Quantile, IsTheSmallestValueThatEnoughOthersDoNotExceed) {
  const std::vector<double> values{50, 10, 40, 20, 30};
  EXPECT_EQ(quantile(values, 0.5), 30);
  EXPECT_EQ(quantile(values, 0.2), 10);
  EXPECT_EQ(quantile(values, 0.21), 20);
  EXPECT_EQ(quantile(values, 0.8), 40);
  EXPECT_EQ(quantile(values, 0.99), 50);
}

TEST(Quantile, EndsAreTheLeastAndTheMost) {
  const std::vector<double> values{3, 1, 2};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 1), 3);
}

TEST(Quantile, NinetyNineOfAHundredLeavesOutOneOfAHundred) {
  std::vector<double> values(100, 1.0);
  values[17] = 1000;
  EXPECT_EQ(quantile(values, 0.99), 1);
  values[18] = 1000;
  EXPECT_EQ(quantile(values, 0.99), 1000);
}

TEST(Quantile, OfNothingIsZero) {
  EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(Spread, OddNumberHasAMiddleValue) {
  const spread of = spread_of({9, 1, 4});
  EXPECT_EQ(of.median, 4);
  EXPECT_EQ(of.least, 1);
  EXPECT_EQ(of.most, 9);
}

TEST(Spread, EvenNumberHasTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(spread_of({8, 1, 2, 4}).median, 3);
}

TEST(Spread, OfNothingIsZero) {
  EXPECT_EQ(spread_of({}).most, 0);
}

TEST(Ratios, ArePairedAndAsManyAsTheShorterHas) {
  EXPECT_EQ(ratios({6, 8, 1}, {2, 4}), (std::vector<double>{3, 2}));
}

TEST(MedianInterval, LeavesOutAsManyOfEitherEndAsChanceAllows) {
  std::vector<double> values;
  for (int value = 15; value > 0; --value) {
    values.push_back(value);
  }
  const spread of_fifteen = median_interval(values);
  EXPECT_EQ(of_fifteen.median, 8);
  EXPECT_EQ(of_fifteen.least, 4) << "at most three of fifteen coins: 1.8 %, at most four 5.9 %";
  EXPECT_EQ(of_fifteen.most, 12);
}

TEST(MedianInterval, IsAllOfThemWhereTheyAreFew) {
  const spread of_five = median_interval({3, 1, 2, 5, 4});
  EXPECT_EQ(of_five.least, 1);
  EXPECT_EQ(of_five.most, 5);
  EXPECT_EQ(median_interval({1, 2, 3, 4, 5, 6, 7, 8, 9}).least, 2);
  EXPECT_EQ(median_interval({}).most, 0);
}

// As the kernel gives it, in KiB.
double total_memory_gib() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kib = 0;
  file >> name >> kib;
  EXPECT_EQ(name, "MemTotal:");
  return kib / (1 << 20U);
}

TEST(MachineFacts, SayHowMuchMemoryThereIs) {
  EXPECT_NEAR(machine_facts().at("memory_gib").get<double>(), total_memory_gib(), 0.051);
}

TEST(MachineFacts, SayWhichCommitWasBuilt) {
  EXPECT_THAT(machine_facts().at("commit").get<std::string>(),
              ::testing::MatchesRegex("unknown|[0-9a-f]{10,40}(-dirty)?"));
}

TEST(MachineFacts, NameADriverOnlyWhereOneIsLoaded) {
  EXPECT_EQ(machine_facts().contains("nvidia_driver"), std::ifstream("/sys/module/nvidia/version").good());
}

}  // namespace
}  // namespace penstock::bench
