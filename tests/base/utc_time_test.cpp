#include "base/utc_time.hpp"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(utc_time, IsReadToTheNanosecond) {
  EXPECT_EQ(parse_utc_time("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_utc_time("1970-01-01T00:00:01.000000001Z"), 1'000'000'001);
  EXPECT_EQ(parse_utc_time("2000-02-29T23:59:59.5+00:00"), 951868799500000000);
  EXPECT_EQ(print_utc_time(951868799500000000), "2000-02-29T23:59:59.500000000Z");
  EXPECT_EQ(parse_utc_time(print_utc_time(-1)), -1);
  for (const char* const wrong : {"", "2000", "2000-01-01T00:00:00.Z", "2001-02-29T00:00:00Z", "2000-01-01T24:00:00Z",
                                  "2000-01-01T00:00:00+02", "2000-01-01T00:-1:00Z", "9999-01-01T00:00:00Z"}) {
    EXPECT_FALSE(parse_utc_time(wrong)) << wrong;
  }
}

TEST(utc_time, IsPrintedToTheEndsOfItsRange) {
  EXPECT_EQ(print_utc_time(std::numeric_limits<std::int64_t>::min()), "1677-09-21T00:12:43.145224192Z");
  EXPECT_EQ(print_utc_time(std::numeric_limits<std::int64_t>::max()), "2262-04-11T23:47:16.854775807Z");
}

TEST(utc_time, IsNoneBeyondWhatClocksSay) {
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
