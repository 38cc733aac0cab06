#include "daemon/settings/quantity.hpp"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using namespace std::chrono_literals;

TEST(quantity, ReadsDurations) {
  EXPECT_EQ(parse_duration("100ns"), 100ns);
  EXPECT_EQ(parse_duration("500us"), 500us);
  EXPECT_EQ(parse_duration("5ms"), 5ms);
  EXPECT_EQ(parse_duration("10s"), 10s);
  EXPECT_EQ(parse_duration("10 s"), 10s);
  EXPECT_EQ(parse_duration("2min"), 2min);
  EXPECT_EQ(parse_duration("3h"), 3h);
  EXPECT_EQ(parse_duration("0s"), 0s);
  EXPECT_EQ(parse_duration("9223372036854775807ns"), std::chrono::nanoseconds::max());
}

TEST(quantity, RefusesWhatIsNoDuration) {
  for (const char* text : {"", "10", "s", "-1s", "+1s", "1.5s", "1 5s", "10  s", " 10s", "10s ", "10S", "10 MiB",
                           "9223372036854775808ns", "9223372037s", "99999999999999999999s", "0x10s"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(quantity, ReadsSizes) {
  EXPECT_EQ(parse_size("7 B"), 7U);
  EXPECT_EQ(parse_size("64 KiB"), 65536U);
  EXPECT_EQ(parse_size("8MiB"), 8388608U);
  EXPECT_EQ(parse_size("1 GiB"), 1073741824U);
  EXPECT_EQ(parse_size("1 TiB"), 1099511627776U);
  EXPECT_EQ(parse_size("18446744073709551615 B"), std::numeric_limits<std::size_t>::max());
}

TEST(quantity, RefusesWhatIsNoSize) {
  for (const char* text : {"", "8", "8 MB", "8 mib", "-8 MiB", "1.5 MiB", "MiB", "8 Mi", "16777216 TiB",
                           "18446744073709551616 B", "8 MiB!"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(quantity, PrintsInTheLargestWholeUnit) {
  EXPECT_EQ(print_duration(0ns), "0ns");
  EXPECT_EQ(print_duration(1500ms), "1500ms");
  EXPECT_EQ(print_duration(10s), "10s");
  EXPECT_EQ(print_duration(600s), "10min");
  EXPECT_EQ(print_size(0), "0 B");
  EXPECT_EQ(print_size(1000), "1000 B");
  EXPECT_EQ(print_size(8388608), "8 MiB");
}

TEST(quantity, ReadsBackWhatItPrints) {
  for (std::int64_t value = 1; value < std::numeric_limits<std::int64_t>::max() / 7; value = value * 7 + 60) {
    EXPECT_EQ(parse_duration(print_duration(std::chrono::nanoseconds(value))), std::chrono::nanoseconds(value));
    EXPECT_EQ(parse_size(print_size(static_cast<std::size_t>(value))), static_cast<std::size_t>(value));
    EXPECT_EQ(parse_size(print_size(static_cast<std::size_t>(value) << 10U)), static_cast<std::size_t>(value) << 10U);
  }
}

}  // namespace
}  // namespace penstock
