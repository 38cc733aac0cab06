#include "daemon/wheel/in_flight_limit.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

#include <gtest/gtest.h>

namespace penstock {
namespace {

// A device on which one batch takes `alone`, and which gets no quicker beyond `useful` of them at once. There is always
// enough to do, unless `demand` says how many there are at most. The times vary by a fifth.
class device_model {
 public:
  explicit device_model(double gains_up_to) : useful(gains_up_to) {}

  double useful;
  std::uint32_t demand = UINT32_MAX;

  void run(in_flight_limit& of, int batches) {
    for (int done = 0; done < batches; ++done) {
      const std::uint32_t in_flight = std::min(of.now(), demand);
      const double varied = 0.9 + 0.2 * std::uniform_real_distribution<double>{}(random_);
      now_ +=
          std::chrono::duration_cast<std::chrono::nanoseconds>(varied * alone_ / std::min<double>(in_flight, useful));
      of.done(in_flight, 100, now_);
    }
  }

 private:
  std::chrono::duration<double> alone_ = std::chrono::milliseconds{4};
  time_point now_{std::chrono::hours{1}};
  std::mt19937 random_{7};
};

constexpr int long_enough = 20'000;

TEST(InFlightLimit, StartsWithAsManyAsThereCanBe) {
  EXPECT_EQ(in_flight_limit(8).now(), 8U);
}

TEST(InFlightLimit, GoesDownToAsManyAsKeepTheDeviceBusy) {
  for (const double useful : {2.0, 3.0, 4.0, 6.0}) {
    in_flight_limit limit(8);
    device_model(useful).run(limit, 3000);
    EXPECT_EQ(limit.now(), static_cast<std::uint32_t>(useful));
  }
}

TEST(InFlightLimit, StaysWhereEachFurtherBatchIsGained) {
  in_flight_limit limit(8);
  device_model device(100);
  std::uint64_t all = 0;
  for (int batch = 0; batch < long_enough; ++batch) {
    device.run(limit, 1);
    all += limit.now();
  }
  EXPECT_GE(static_cast<double>(all) / long_enough, 7.8);
}

TEST(InFlightLimit, GoesUpAgainWhenTheWorkChanges) {
  in_flight_limit limit(8);
  device_model device(2);
  device.run(limit, long_enough);
  ASSERT_LE(limit.now(), 4U);
  device.useful = 100;
  device.run(limit, 3 * long_enough);
  EXPECT_GE(limit.now(), 6U);
}

TEST(InFlightLimit, LearnsNothingWhileThereIsLittleToDo) {
  in_flight_limit limit(8);
  device_model device(2);
  device.demand = 7;
  device.run(limit, long_enough);
  EXPECT_EQ(limit.now(), 8U);
}

TEST(InFlightLimit, NeverGoesBelowTwoSoThatCopiesAndWorkOverlap) {
  in_flight_limit limit(8);
  device_model(1).run(limit, long_enough);
  EXPECT_EQ(limit.now(), 2U);
}

TEST(InFlightLimit, KeepsToOneWhereThereIsOnlyOne) {
  in_flight_limit limit(1);
  device_model(3).run(limit, long_enough);
  EXPECT_EQ(limit.now(), 1U);
}

}  // namespace
}  // namespace penstock
