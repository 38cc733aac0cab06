#include "base/utc_time.hpp"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(UtcTime, GoesAndComes) {
  const std::int64_t moment = 1'795'824'853'500'000'001;
  EXPECT_EQ(parse_utc_time(print_utc_time(moment)), moment);
}

TEST(UtcTime, IsNoneBeyondWhatClocksSay) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(later_by(1'000, -2e-6), -1'000);
  for (const std::int64_t time_ns : {most, least}) {
    EXPECT_EQ(later_by(time_ns, 0.0), std::nullopt);
  }
  for (const double seconds : {1e300, -1e300, std::numeric_limits<double>::quiet_NaN(), 4.6e9}) {
    EXPECT_EQ(later_by(4'000'000'000'000'000'000, seconds), std::nullopt) << seconds;
  }
}

}  // namespace
}  // namespace penstock
