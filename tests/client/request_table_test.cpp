#include "client/cpp/request_table.hpp"

#include <gmock/gmock.h>

#include "client/cpp/greeting.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using link::never;
using ::testing::ElementsAre;

const link::time_point start{std::chrono::hours{1}};

link::pending_request pending(std::uint64_t id, link::time_point submitted = start) {
  link::pending_request made;
  made.id = id;
  made.submitted = submitted;
  return made;
}

TEST(RequestTable, TakesEachIdOnce) {
  link::request_table table;
  EXPECT_NE(table.insert(pending(5)), nullptr);
  EXPECT_EQ(table.insert(pending(5)), nullptr);
  EXPECT_TRUE(table.take(5).has_value());
  EXPECT_FALSE(table.take(5).has_value());
  EXPECT_EQ(table.find(5), nullptr);
}

TEST(RequestTable, AlarmsComeInOrderOfTime) {
  link::request_table table;
  table.set_alarm(*table.insert(pending(1)), start + 3s);
  table.set_alarm(*table.insert(pending(2)), start + 1s);
  EXPECT_EQ(table.next_alarm(), start + 1s);
  EXPECT_EQ(table.due(start), nullptr);
  EXPECT_EQ(table.due(start + 5s)->id, 2U);
  EXPECT_EQ(table.due(start + 5s)->id, 1U);
  EXPECT_EQ(table.due(start + 5s), nullptr);
  EXPECT_EQ(table.next_alarm(), never);
}

TEST(RequestTable, OnlyTheLastAlarmOfARequestComes) {
  link::request_table table;
  link::pending_request& one = *table.insert(pending(1));
  table.set_alarm(one, start + 1s);
  table.set_alarm(one, start + 4s);
  EXPECT_EQ(table.due(start + 2s), nullptr);
  EXPECT_EQ(table.due(start + 4s), &one);
}

TEST(RequestTable, AlarmOfARequestThatIsGoneDoesNotCome) {
  link::request_table table;
  table.set_alarm(*table.insert(pending(1)), start + 1s);
  (void)table.take(1);
  table.set_alarm(*table.insert(pending(1)), start + 9s);
  EXPECT_EQ(table.due(start + 5s), nullptr);
}

TEST(RequestTable, IdsAreInTheOrderOfSubmission) {
  link::request_table table;
  table.insert(pending(7, start + 2s));
  table.insert(pending(3, start + 3s));
  table.insert(pending(9, start + 1s));
  EXPECT_THAT(table.ids(), ElementsAre(9, 7, 3));
}

class Greeting : public ::testing::Test {
 protected:
  link::greeting greeting_{1s, 3s};
};

TEST_F(Greeting, IsDueWhenAConnectionStands) {
  EXPECT_EQ(greeting_.hello_at(), never);
  greeting_.connected(start);
  EXPECT_EQ(greeting_.hello_at(), start);
  EXPECT_FALSE(greeting_.ready());
}

TEST_F(Greeting, IsRepeatedWithGrowingPausesUpToTheLimit) {
  greeting_.connected(start);
  greeting_.said(start);
  EXPECT_EQ(greeting_.hello_at(), start + 1s);
  greeting_.said(start);
  EXPECT_EQ(greeting_.hello_at(), start + 2s);
  greeting_.said(start);
  greeting_.said(start);
  EXPECT_EQ(greeting_.hello_at(), start + 3s);
}

TEST_F(Greeting, EndsWithTheWelcome) {
  greeting_.connected(start);
  greeting_.said(start);
  EXPECT_TRUE(greeting_.welcomed("a", "t"));
  EXPECT_TRUE(greeting_.ready());
  EXPECT_EQ(greeting_.hello_at(), never);
}

TEST_F(Greeting, SecondWelcomeOfTheSameInstanceLosesNothing) {
  greeting_.connected(start);
  (void)greeting_.welcomed("a", "t");
  greeting_.silent(start);
  EXPECT_TRUE(greeting_.ready());
  EXPECT_EQ(greeting_.hello_at(), start);
  EXPECT_FALSE(greeting_.welcomed("a", "t"));
  EXPECT_TRUE(greeting_.welcomed("b", "t"));
}

TEST_F(Greeting, IsRequiredOnceUntilTheWelcome) {
  greeting_.connected(start);
  (void)greeting_.welcomed("a", "t");
  greeting_.required(start);
  EXPECT_FALSE(greeting_.ready());
  greeting_.said(start);
  greeting_.required(start + 1ms);
  EXPECT_EQ(greeting_.hello_at(), start + 1s);
  EXPECT_TRUE(greeting_.welcomed("a", "t"));
}

TEST_F(Greeting, IsNotSaidWithoutAConnection) {
  greeting_.connected(start);
  greeting_.disconnected();
  EXPECT_EQ(greeting_.hello_at(), never);
  EXPECT_FALSE(greeting_.ready());
}

}  // namespace
}  // namespace penstock::test
