#include "client/cpp/request_table.hpp"

#include <gmock/gmock.h>

#include "client/cpp/handshake.hpp"

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

class HelloTimer : public ::testing::Test {
 protected:
  link::hello_timer timer_{1s, 3s};
};

TEST_F(HelloTimer, IsDueWhenAConnectionStands) {
  EXPECT_EQ(timer_.hello_at(), never);
  timer_.connected(start);
  EXPECT_EQ(timer_.hello_at(), start);
  EXPECT_FALSE(timer_.ready());
}

TEST_F(HelloTimer, IsRepeatedWithGrowingPausesUpToTheLimit) {
  timer_.connected(start);
  timer_.sent(start);
  EXPECT_EQ(timer_.hello_at(), start + 1s);
  timer_.sent(start);
  EXPECT_EQ(timer_.hello_at(), start + 2s);
  timer_.sent(start);
  timer_.sent(start);
  EXPECT_EQ(timer_.hello_at(), start + 3s);
}

TEST_F(HelloTimer, EndsWithTheWelcome) {
  timer_.connected(start);
  timer_.sent(start);
  EXPECT_TRUE(timer_.welcomed("a", "t"));
  EXPECT_TRUE(timer_.ready());
  EXPECT_EQ(timer_.hello_at(), never);
}

TEST_F(HelloTimer, SecondWelcomeOfTheSameInstanceLosesNothing) {
  timer_.connected(start);
  (void)timer_.welcomed("a", "t");
  timer_.silent(start);
  EXPECT_TRUE(timer_.ready());
  EXPECT_EQ(timer_.hello_at(), start);
  EXPECT_FALSE(timer_.welcomed("a", "t"));
  EXPECT_TRUE(timer_.welcomed("b", "t"));
}

TEST_F(HelloTimer, IsRequiredOnceUntilTheWelcome) {
  timer_.connected(start);
  (void)timer_.welcomed("a", "t");
  timer_.required(start);
  EXPECT_FALSE(timer_.ready());
  timer_.sent(start);
  timer_.required(start + 1ms);
  EXPECT_EQ(timer_.hello_at(), start + 1s);
  EXPECT_TRUE(timer_.welcomed("a", "t"));
}

TEST_F(HelloTimer, IsNotSaidWithoutAConnection) {
  timer_.connected(start);
  timer_.disconnected();
  EXPECT_EQ(timer_.hello_at(), never);
  EXPECT_FALSE(timer_.ready());
}

}  // namespace
}  // namespace penstock::test
