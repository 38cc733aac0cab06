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
#include "tests/bench/overload/memory_halves.hpp"
#include "tests/bench/overload/overload_verdict.hpp"
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

TEST(Recovery, CountsTheRequestsAfterTheOverload) {
  using std::chrono::milliseconds;
  EXPECT_EQ(recovery_of(probes(5000), milliseconds{10}, milliseconds{15}).after, 16U);
  EXPECT_EQ(recovery_of({}, milliseconds{10}, milliseconds{15}).after, 0U);
  EXPECT_EQ(recovery_of({}, milliseconds{10}, milliseconds{15}).seconds, -1);
}

TEST(Recovery, IsNotSeenWhereTooFewFollow) {
  using std::chrono::milliseconds;
  EXPECT_EQ(recovery_of(probes(5000), milliseconds{10}, milliseconds{25}).seconds, -1);
}

TEST(MemoryHalves, AreTheMostOfEachAndLeaveOutWhatIsOutsideOfTheOverload) {
  const memory_halves seen = halves_of({-0.1, 0, 1, 1.9, 2, 3.9, 4, 5}, {99, 10, 30, 20, 25, 27, 98, 97}, 4);
  EXPECT_DOUBLE_EQ(seen.first_mib, 30);
  EXPECT_DOUBLE_EQ(seen.second_mib, 27);
  EXPECT_DOUBLE_EQ(seen.growth(), 0.9);
}

TEST(MemoryHalves, MayDifferByOnePercentAndFiftyMillisecondsOfRequests) {
  EXPECT_DOUBLE_EQ(memory_margin_mib(200, 0), 2);
  EXPECT_DOUBLE_EQ(memory_margin_mib(0, 100), 5);
}

overload_outcome held() {
  return {.sent = 1000,
          .unanswered = 0,
          .dropped = 7,
          .told = 7,
          .memory = {50, 55},
          .margin_mib = 5,
          .probes_after = 80,
          .recovery_s = 0};
}

TEST(OverloadVerdict, HasNothingToSayWhereAllHolds) {
  EXPECT_THAT(complaints_of(held()), IsEmpty());
}

TEST(OverloadVerdict, FailsARequestWithoutAnAnswer) {
  overload_outcome run = held();
  run.unanswered = 1;
  EXPECT_THAT(complaints_of(run), ElementsAre("1 of 1000 requests had no answer"));
}

TEST(OverloadVerdict, FailsADropThatNobodyWasToldOf) {
  overload_outcome run = held();
  run.told = 6;
  EXPECT_THAT(complaints_of(run), ElementsAre("the daemon dropped 7 requests and told of 6"));
  run.told = 8;
  EXPECT_THAT(complaints_of(run), ElementsAre("the daemon dropped 7 requests and told of 8"));
}

TEST(OverloadVerdict, FailsMemoryThatGrowsBeyondItsMargin) {
  overload_outcome run = held();
  run.memory.second_mib = 55.1;
  EXPECT_THAT(complaints_of(run), ElementsAre("memory went from 50.0 MiB in the first half to 55.1 in the second, "
                                              "beyond the margin of 5.0"));
}

TEST(OverloadVerdict, DoesNotCallFlatWhatWasNotSampled) {
  overload_outcome run = held();
  run.memory = {50, 0};
  EXPECT_THAT(complaints_of(run), ElementsAre("memory was not sampled in both halves"));
  run.memory = {0, 50};
  EXPECT_THAT(complaints_of(run), ElementsAre("memory was not sampled in both halves"));
}

TEST(OverloadVerdict, FailsWhereNoRecoveryWasSeen) {
  overload_outcome run = held();
  run.recovery_s = -1;
  EXPECT_THAT(complaints_of(run), ElementsAre("no recovery was seen in the 80 requests after it"));
}

// A daemon that keeps half of what it is sent, as at twice its capacity it must, for as long as the shortest overload.
TEST(OverloadVerdict, FailsADaemonThatKeepsWhatItCannotDo) {
  constexpr double mib_per_second = 100;
  std::vector<double> seconds;
  std::vector<double> mib;
  for (int at = 0; at < 20; ++at) {
    seconds.push_back(0.05 * at);
    mib.push_back(50 + mib_per_second / 2 * seconds.back());
  }
  overload_outcome run = held();
  run.memory = halves_of(seconds, mib, 1);
  run.margin_mib = memory_margin_mib(run.memory.first_mib, mib_per_second);
  EXPECT_THAT(complaints_of(run), ElementsAre(HasSubstr("memory went from")));
}

}  // namespace
}  // namespace penstock::bench
