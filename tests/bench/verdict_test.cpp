// What a benchmark concludes from its figures.

#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/floors/floors.hpp"
#include "tests/bench/floors/time_limit.hpp"
#include "tests/bench/growth/bend.hpp"
#include "tests/bench/overload/recovery.hpp"
#include "tests/bench/steady/slope.hpp"

namespace penstock::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::map<std::string, double> measured{{"large", 0.8}, {"small", 0.5}};

nlohmann::ordered_json floors_of(double small) {
  return {{"margin", 0.1}, {"floors", {{"large", 0.8}, {"small", small}}}};
}

TEST(Floors, AreReachedWithinTheMargin) {
  EXPECT_THAT(below_floors(measured, floors_of(0.5)), IsEmpty());
  EXPECT_THAT(below_floors(measured, floors_of(0.55)), IsEmpty());
}

TEST(Floors, FailARatioOnceTheyAreRaised) {
  EXPECT_THAT(below_floors(measured, floors_of(0.56)),
              ElementsAre("small: 0.500 is below its floor of 0.560 less 10 %"));
}

TEST(Floors, MayHaveAMarginOfTheirOwn) {
  nlohmann::ordered_json floors = floors_of(0.55);
  floors["margins"] = {{"small", 0.05}};
  EXPECT_THAT(below_floors(measured, floors), ElementsAre("small: 0.500 is below its floor of 0.550 less 5 %"));
  floors["margins"] = {{"large", 0.05}, {"smal", 0.5}};
  EXPECT_THAT(below_floors(measured, floors), ElementsAre("smal: there is a margin of 50 %, and no floor"));
}

TEST(Floors, FailWhatIsNotANumber) {
  EXPECT_THAT(below_floors({{"large", 0.8}, {"small", std::nan("")}}, floors_of(0.1)),
              ElementsAre(HasSubstr("small: nan is below")));
}

TEST(Floors, NameWhatIsNotMeasuredAndWhatHasNone) {
  EXPECT_THAT(below_floors({{"large", 0.8}, {"new", 1}}, floors_of(0.5)),
              ElementsAre("small: there is a floor, and nothing that measures it", "new: 1.000 has no floor"));
}

TEST(Floors, RefuseAFileThatIsSomethingElse) {
  EXPECT_THROW((void)below_floors(measured, {{"floors", 1}}), nlohmann::json::exception);
}

TEST(TimeLimit, PassesOnceItsSecondsAreOver) {
  time_limit::clock::time_point now{std::chrono::hours{1}};
  const time_limit limit(time_limit::seconds(180), [&now] { return now; });
  now += std::chrono::milliseconds{179'600};
  EXPECT_FALSE(limit.passed());
  EXPECT_EQ(limit.text(), "180 s of at most 180 s");
  now += std::chrono::milliseconds{500};
  EXPECT_TRUE(limit.passed());
  EXPECT_THAT(limit.text(), HasSubstr("it has taken 180.1 s, and 180 s are the most: "));
}

TEST(Bend, IsTheFirstStepThatGainsLessThanHalfOfProportion) {
  EXPECT_EQ(bend_of({1, 2, 4, 8}, {10, 20, 31, 33}, expectation::grows), 8);
  EXPECT_EQ(bend_of({1, 2, 4}, {10, 14, 28}, expectation::grows), 2);
  EXPECT_EQ(bend_of({1, 2, 4}, {10, 16, 27}, expectation::grows), std::nullopt);
}

TEST(Bend, IsWhereWhatShouldHoldFallsBelowTwoThirdsOfTheMost) {
  EXPECT_EQ(bend_of({1, 10, 100}, {80, 90, 61}, expectation::holds), std::nullopt);
  EXPECT_EQ(bend_of({1, 10, 100}, {80, 90, 59}, expectation::holds), 100);
}

TEST(Bend, IsNoneOfASinglePoint) {
  EXPECT_EQ(bend_of({1}, {80}, expectation::grows), std::nullopt);
}

TEST(Flatness, IsWhatTheLineGainsAfterTheFirstFifth) {
  const std::vector<double> x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const flatness leaking = flatness_of(x, {0, 50, 100, 101, 102, 103, 104, 105, 106, 107}, 0, 6.9);
  EXPECT_NEAR(leaking.gain, 7, 1e-9);
  EXPECT_FALSE(leaking.flat());
  EXPECT_TRUE(flatness_of(x, {0, 50, 100, 100, 100, 100, 100, 100, 100, 100}, 0, 0.1).flat());
}

TEST(Flatness, AllowsAShareOfTheMeanBesideItsRoom) {
  EXPECT_DOUBLE_EQ(flatness_of({0, 1}, {200, 200}, 0.01, 1).margin, 3);
}

TEST(Flatness, IsGivenToAShrinkingSeries) {
  EXPECT_TRUE(flatness_of({0, 1, 2}, {30, 20, 10}, 0, 0).flat());
}

// One request a millisecond, from 0 to 29: an overload from 10 to 15 makes those before 20 slow.
std::vector<crowd_result> probes(double slow_us) {
  std::vector<crowd_result> made;
  for (int at = 0; at < 31; ++at) {
    made.push_back({std::chrono::milliseconds{at}, at >= 10 && at < 20 ? slow_us : 100});
  }
  return made;
}

TEST(Recovery, IsTheFirstOfTenNormalRequestsInARow) {
  using std::chrono::milliseconds;
  const recovery seen = recovery_of(probes(5000), milliseconds{10}, milliseconds{15});
  EXPECT_DOUBLE_EQ(seen.normal_us, 100);
  EXPECT_DOUBLE_EQ(seen.overloaded_us, 5000);
  EXPECT_DOUBLE_EQ(seen.seconds, 0.005);
}

TEST(Recovery, IsNotSeenWhereTooFewFollow) {
  using std::chrono::milliseconds;
  EXPECT_EQ(recovery_of(probes(5000), milliseconds{10}, milliseconds{25}).seconds, -1);
}

}  // namespace
}  // namespace penstock::bench
