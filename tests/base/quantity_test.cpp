#include "base/quantity.hpp"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using namespace std::chrono_literals;

struct misread {
  const char* text;
  const char* fault;
};

TEST(Quantity, DurationIsANumberAndAUnit) {
  EXPECT_EQ(*parse_duration("100ns"), 100ns);
  EXPECT_EQ(*parse_duration("500us"), 500us);
  EXPECT_EQ(*parse_duration("5ms"), 5ms);
  EXPECT_EQ(*parse_duration("10 s"), 10s);
  EXPECT_EQ(*parse_duration("2min"), 2min);
  EXPECT_EQ(*parse_duration("2m"), 2min);
  EXPECT_EQ(*parse_duration("3h"), 3h);
  EXPECT_EQ(*parse_duration("0s"), 0s);
  EXPECT_EQ(*parse_duration("9223372036854775807ns"), std::chrono::nanoseconds::max());
}

TEST(Quantity, NumberMayHaveAFraction) {
  EXPECT_EQ(*parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(*parse_duration("0.5ms"), 500us);
  EXPECT_EQ(*parse_duration("0.1s"), 100ms);
  EXPECT_EQ(*parse_duration("1.0000000005s"), 1'000'000'001ns);
  EXPECT_EQ(*parse_duration("0.3333333333333333333333333333h"), 1'200'000'000'000ns);
  EXPECT_EQ(*parse_size("1.5 KiB"), 1536U);
  EXPECT_EQ(*parse_size("1.1 GiB"), 1'181'116'006U);
}

TEST(Quantity, BareNumberIsOfSecondsWhereThatIsSaid) {
  EXPECT_EQ(*parse_duration("5", bare_number::seconds), 5s);
  EXPECT_EQ(*parse_duration("0", bare_number::seconds), 0s);
  EXPECT_FALSE(parse_duration("5"));
}

TEST(Quantity, FaultOfADurationIsSaid) {
  for (const misread& each : {misread{"", "there is no number"},
                              {"10", "it has no unit"},
                              {"s", "it does not begin with a number"},
                              {"-1s", "the number has a sign"},
                              {"+1s", "the number has a sign"},
                              {"1,5s", "a fraction follows a point, not a comma"},
                              {"1.s", "no digit follows the point"},
                              {"5 parsecs", "'parsecs' is none of the units ns, us, ms, s, min, h"},
                              {"10  s", "' s' is none of the units ns, us, ms, s, min, h"},
                              {"10S", "'S' is none of the units ns, us, ms, s, min, h"},
                              {"9223372036854775808ns", "the number is too large"},
                              {"9223372037s", "the number is too large"},
                              {"99999999999999999999s", "the number is too large"},
                              {"0.4ns", "it is less than 1 ns"}}) {
    const auto read = parse_duration(each.text);
    EXPECT_FALSE(read) << each.text;
    EXPECT_EQ(read.fault, each.fault) << each.text;
  }
  for (const char* text : {"1 5s", " 10s", "10s ", "10 MiB", "0x10s", "1e3s", "nan", "inf", "5s5"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(Quantity, SizeIsANumberAndAUnit) {
  EXPECT_EQ(*parse_size("7 B"), 7U);
  EXPECT_EQ(*parse_size("64 KiB"), 65536U);
  EXPECT_EQ(*parse_size("8MiB"), 8388608U);
  EXPECT_EQ(*parse_size("1 GiB"), 1073741824U);
  EXPECT_EQ(*parse_size("1 TiB"), 1099511627776U);
  EXPECT_EQ(*parse_size("1.5 MB"), 1'500'000U);
  EXPECT_EQ(*parse_size("18446744073709551615 B"), std::numeric_limits<std::size_t>::max());
}

TEST(Quantity, FaultOfASizeIsSaid) {
  for (const misread& each : {misread{"8", "it has no unit"},
                              {"8 mib", "'mib' is none of the units B, KiB, MiB, GiB, TiB"},
                              {"MiB", "it does not begin with a number"},
                              {"16777216 TiB", "the number is too large"},
                              {"18446744073709551616 B", "the number is too large"}}) {
    const auto read = parse_size(each.text);
    EXPECT_FALSE(read) << each.text;
    EXPECT_EQ(read.fault, each.fault) << each.text;
  }
  for (const char* text : {"", "-8 MiB", "8 Mi", "8 MiB!", "12 KB"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Quantity, PositiveNumberIsReadWhole) {
  EXPECT_EQ(*parse_positive("1000"), 1000);
  EXPECT_EQ(*parse_positive("0.5"), 0.5);
  EXPECT_EQ(*parse_positive("2e6"), 2e6);
  for (const misread& each :
       {misread{"1000,5", "a fraction follows a point, not a comma, and thousands are not set apart"},
        {"0", "it is not greater than 0"},
        {"-3", "it is not greater than 0"},
        {"", "it is no number"},
        {"fast", "it is no number"},
        {"8 kHz", "' kHz' follows the number"},
        {"1e999", "the number is out of range"},
        {"inf", "the number is out of range"}}) {
    const auto read = parse_positive(each.text);
    EXPECT_FALSE(read) << each.text;
    EXPECT_EQ(read.fault, each.fault) << each.text;
  }
}

TEST(Quantity, PrintsInTheLargestWholeUnit) {
  EXPECT_EQ(print_duration(0ns), "0ns");
  EXPECT_EQ(print_duration(1500ms), "1500ms");
  EXPECT_EQ(print_duration(10s), "10s");
  EXPECT_EQ(print_duration(600s), "10min");
  EXPECT_EQ(print_size(0), "0 B");
  EXPECT_EQ(print_size(1000), "1000 B");
  EXPECT_EQ(print_size(8388608), "8 MiB");
}

TEST(Quantity, ReadsBackWhatItPrints) {
  for (std::int64_t value = 1; value < std::numeric_limits<std::int64_t>::max() / 7; value = value * 7 + 60) {
    EXPECT_EQ(*parse_duration(print_duration(std::chrono::nanoseconds(value))), std::chrono::nanoseconds(value));
    EXPECT_EQ(*parse_size(print_size(static_cast<std::size_t>(value))), static_cast<std::size_t>(value));
    EXPECT_EQ(*parse_size(print_size(static_cast<std::size_t>(value) << 10U)), static_cast<std::size_t>(value) << 10U);
  }
}

TEST(Quantity, WritesThreeDigits) {
  EXPECT_EQ(duration_text(0ns), "0 ns");
  EXPECT_EQ(duration_text(999ns), "999 ns");
  EXPECT_EQ(duration_text(1234ns), "1.23 us");
  EXPECT_EQ(duration_text(48'250ns), "48.2 us");
  EXPECT_EQ(duration_text(999'999ns), "1.00 ms");
  EXPECT_EQ(duration_text(90s), "90.0 s");
  EXPECT_EQ(duration_text(5000s), "5000 s");
  EXPECT_EQ(bytes_text(12), "12 B");
  EXPECT_EQ(bytes_text(3'210'000), "3.21 MB");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-1234), "-1,234");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(3.14159), "3.14");
  EXPECT_EQ(number_text(0.0123), "0.01230");
  EXPECT_EQ(number_text(48.25), "48.2");
  EXPECT_EQ(number_text(-3), "-3");
  EXPECT_EQ(number_text(1e-9), "1.00e-09");
}

TEST(Quantity, WritesSizesInTheUnitsThatTheyAreSetIn) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(8192), "8 KiB");
  EXPECT_EQ(size_text(1536), "1.50 KiB");
  EXPECT_EQ(size_text(16'000), "15.6 KiB");
  EXPECT_EQ(size_text(std::uint64_t{64} << 20U), "64 MiB");
  EXPECT_EQ(size_text(std::uint64_t{3} << 30U), "3 GiB");
}

TEST(Quantity, NumberIsAllOfTheText) {
  EXPECT_EQ(parse_number<std::int64_t>("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_number<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(parse_number<double>("-2.5e3"), -2500.0);
  for (const char* text : {"", " 1", "1 ", "1.5", "0x10", "65536", "-1", "+1"}) {
    EXPECT_EQ(parse_number<std::uint16_t>(text), std::nullopt) << text;
  }
  for (const char* text : {"", "inf", "nan", "1e999", "2,5", "1m", "+1"}) {
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace penstock
