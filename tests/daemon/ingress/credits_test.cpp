#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/ingress/admission.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;
using wire::status;

class Credits : public ::testing::Test {
 protected:
  Credits() {
    limits_.credit_requests = 4;
    limits_.credit_bytes = 100;
  }
  client_settings limits_;
  client_record client_{0, "a", 4};
};

TEST_F(Credits, AreEnoughUpToTheLast) {
  client_.requests = 3;
  client_.bytes = 60;
  EXPECT_TRUE(check_credits(client_, 40, limits_).admitted());
}

TEST_F(Credits, EndWithTheRequestsGranted) {
  client_.requests = 4;
  const verdict said = check_credits(client_, 1, limits_);
  EXPECT_EQ(said.code, status::no_credit);
  EXPECT_THAT(said.reason, HasSubstr("all 4 requests"));
}

TEST_F(Credits, EndWithTheBytesGranted) {
  client_.bytes = 60;
  const verdict said = check_credits(client_, 41, limits_);
  EXPECT_EQ(said.code, status::no_credit);
  EXPECT_THAT(said.reason, HasSubstr("100 bytes"));
}

TEST_F(Credits, EndWithAsManyAbandonedRequests) {
  client_.abandoned_requests = 3;
  EXPECT_TRUE(check_abandoned(client_, limits_).admitted());
  client_.abandoned_requests = 4;
  const verdict said = check_abandoned(client_, limits_);
  EXPECT_EQ(said.code, status::no_credit);
  EXPECT_THAT(said.reason, HasSubstr("4 requests that expired or were cancelled"));
}

TEST_F(Credits, EndWithMoreAbandonedBytes) {
  client_.abandoned_bytes = 100;
  EXPECT_TRUE(check_abandoned(client_, limits_).admitted());
  client_.abandoned_bytes = 101;
  EXPECT_EQ(check_abandoned(client_, limits_).code, status::no_credit);
}

TEST_F(Credits, AreNotWonByAnOverflow) {
  limits_.credit_bytes = std::numeric_limits<std::size_t>::max();
  client_.bytes = std::numeric_limits<std::size_t>::max() - 10;
  EXPECT_EQ(check_credits(client_, 11, limits_).code, status::no_credit);
}

}  // namespace
}  // namespace penstock
