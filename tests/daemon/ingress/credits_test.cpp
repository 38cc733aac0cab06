#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/ingress/admission.hpp"
#include "tests/support/start.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using testing::start;
using wire::status;

class Credits : public ::testing::Test {
 protected:
  Credits() { client_.grant(4, 100, start); }
  client_record client_{0, "a", 4};
};

TEST_F(Credits, AreEnoughUpToTheLast) {
  client_.requests = 3;
  client_.bytes = 60;
  EXPECT_TRUE(check_credits(client_, 40).admitted());
}

TEST_F(Credits, EndWithTheRequestsGranted) {
  client_.requests = 4;
  const verdict said = check_credits(client_, 1);
  EXPECT_EQ(said.code, status::no_credit);
  EXPECT_THAT(said.reason(), HasSubstr("all 4 requests"));
}

TEST_F(Credits, EndWithTheBytesGranted) {
  client_.bytes = 60;
  const verdict said = check_credits(client_, 41);
  EXPECT_EQ(said.code, status::no_credit);
  EXPECT_THAT(said.reason(), HasSubstr("100 bytes"));
}

TEST_F(Credits, EndWithAsManyAbandonedRequests) {
  client_.abandoned_requests = 3;
  EXPECT_TRUE(check_abandoned(client_).admitted());
  client_.abandoned_requests = 4;
  const verdict said = check_abandoned(client_);
  EXPECT_EQ(said.code, status::no_credit);
  EXPECT_THAT(said.reason(), HasSubstr("4 requests that expired or were cancelled"));
}

TEST_F(Credits, EndWithMoreAbandonedBytes) {
  client_.abandoned_bytes = 100;
  EXPECT_TRUE(check_abandoned(client_).admitted());
  client_.abandoned_bytes = 101;
  EXPECT_EQ(check_abandoned(client_).code, status::no_credit);
}

TEST_F(Credits, GrowAtOnceWithAnotherWord) {
  client_.requests = 4;
  client_.grant(6, 200, start);
  EXPECT_TRUE(check_credits(client_, 1).admitted());
}

TEST_F(Credits, ShrinkOnlyWhenWhatWasUnderWayHasComeAndNothingIsInFlight) {
  client_.grant(2, 50, start);
  client_.requests = 3;
  client_.settle(start + std::chrono::seconds{60});
  EXPECT_TRUE(check_credits(client_, 100).admitted());
  client_.requests = 0;
  client_.settle(start + std::chrono::seconds{9});
  EXPECT_TRUE(check_credits(client_, 100).admitted());
  client_.settle(start + std::chrono::seconds{10});
  EXPECT_FALSE(check_credits(client_, 51).admitted());
}

TEST_F(Credits, AreNotWonByAnOverflow) {
  client_.grant(4, std::numeric_limits<std::size_t>::max(), start);
  client_.bytes = std::numeric_limits<std::size_t>::max() - 10;
  EXPECT_EQ(check_credits(client_, 11).code, status::no_credit);
}

}  // namespace
}  // namespace penstock
