// Statistics of repeated measurements against values worked out by hand.

#include "tests/bench/statistics.hpp"

#include <gtest/gtest.h>

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

TEST(Spread, ComesBackFromJson) {
  const spread of = spread_from(to_json(spread_of({1.5, 2.5, 9.25})));
  EXPECT_EQ(of.median, 2.5);
  EXPECT_EQ(of.least, 1.5);
  EXPECT_EQ(of.most, 9.25);
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

}  // namespace
}  // namespace penstock::bench
