// The gate of CI: floors and time limit.

#include "tests/bench/quick.hpp"

#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(TimeLimit, PassesAfterItsSeconds) {
  time_limit::clock::time_point now{std::chrono::hours{1}};
  const time_limit limit(time_limit::seconds(180), [&now] { return now; });
  now += std::chrono::milliseconds{179'600};
  EXPECT_FALSE(limit.passed());
  EXPECT_EQ(limit.text(), "180 s of at most 180 s");
  now += std::chrono::milliseconds{500};
  EXPECT_TRUE(limit.passed());
  EXPECT_THAT(limit.text(), HasSubstr("it has taken 180.1 s, and 180 s are the most: "));
}

}  // namespace
}  // namespace penstock::bench
