#include "daemon/socket/connection_rate.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr connection_rates rates{.each_per_second = 100, .each_at_once = 20, .all_per_second = 200, .all_at_once = 50};
constexpr connection_rate::time_point begin{std::chrono::hours{1}};

int admitted(connection_rate& by, std::uint64_t source, int tries, connection_rate::time_point now = begin) {
  int taken = 0;
  for (int each = 0; each < tries; ++each) {
    taken += by.admits(source, now) ? 1 : 0;
  }
  return taken;
}

TEST(ConnectionRate, TakesSoManyAtOnceOfASource) {
  connection_rate rate(rates);
  EXPECT_EQ(admitted(rate, 1, 1000), 20);
  EXPECT_EQ(admitted(rate, 2, 1000), 20);
}

TEST(ConnectionRate, TakesThoseOfASourceAtItsRateFromThenOn) {
  connection_rate rate(rates);
  int taken = 0;
  for (milliseconds at{0}; at < seconds{10}; at += milliseconds{1}) {
    taken += admitted(rate, 1, 5, begin + at);
  }
  EXPECT_NEAR(taken, 20 + 1000, 2);
}

TEST(ConnectionRate, BoundsAllSourcesTogether) {
  connection_rate rate(rates);
  int taken = 0;
  for (std::uint64_t source = 0; source < 100; ++source) {
    taken += admitted(rate, source, 10);
  }
  EXPECT_EQ(taken, 50);
  EXPECT_EQ(admitted(rate, 1000, 1000, begin + milliseconds{50}), 10);
}

TEST(ConnectionRate, OneThatComesTooOftenTakesNothingFromTheOthers) {
  connection_rate rate(rates);
  EXPECT_EQ(admitted(rate, 1, 100000), 20);
  EXPECT_EQ(admitted(rate, 2, 20), 20);
}

TEST(ConnectionRate, ForgetsABurstInTime) {
  connection_rate rate(rates);
  ASSERT_EQ(admitted(rate, 1, 1000), 20);
  EXPECT_EQ(admitted(rate, 1, 1000, begin + seconds{1}), 20);
}

TEST(ConnectionRate, LetsAsManyComeAtOnceAsAreExpected) {
  connection_rate rate(rates);
  rate.set_at_once(30, 100);
  EXPECT_EQ(admitted(rate, 1, 1000), 30);
}

}  // namespace
}  // namespace penstock
