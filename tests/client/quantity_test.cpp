#include "client/cli/quantity.hpp"

#include <gtest/gtest.h>

#include "client/cli/axis.hpp"
#include "client/cli/terminal.hpp"

namespace penstock::cli {
namespace {

using namespace std::chrono_literals;

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

std::string labels(const axis& of, int at_most) {
  std::string all;
  for (const tick& each : of.ticks(at_most)) {
    all += each.label + "|";
  }
  return all;
}

TEST(Axis, TicksAreRoundAndNoMoreThanAsked) {
  EXPECT_EQ(labels({0, 24000, "Hz", true}, 3), "0 kHz|10 kHz|20 kHz|");
  EXPECT_EQ(labels({-1.2e6, 1.2e6, "Hz", true}, 3), "-1 MHz|0 MHz|1 MHz|");
  EXPECT_EQ(labels({0, 1.41, "s", true}, 4), "0.0 s|0.5 s|1.0 s|");
  EXPECT_EQ(labels({0, 1800, "s", true}, 4), "0 s|500 s|1000 s|1500 s|");
  EXPECT_EQ(labels({0, 66, "", false}, 4), "0|20|40|60|");
  EXPECT_EQ(labels({0, 0.5, "fs", false}, 3), "0.0 fs|0.2 fs|0.4 fs|");
}

TEST(Axis, TicksLieWhereTheirValueIs) {
  const auto ticks = axis{-10, 30, "", false}.ticks(5);
  ASSERT_EQ(ticks.size(), 5U);
  EXPECT_DOUBLE_EQ(ticks.front().position, 0);
  EXPECT_DOUBLE_EQ(ticks[1].position, 0.25);
  EXPECT_DOUBLE_EQ(ticks.back().position, 1);
}

TEST(Axis, HasNoTicksWithoutASpan) {
  EXPECT_TRUE((axis{1, 1, "", false}.ticks(3).empty()));
  EXPECT_TRUE((axis{0, 1, "", false}.ticks(0).empty()));
}

TEST(Terminal, ColoursFollowTheEnvironment) {
  EXPECT_EQ(colors_of(true, nullptr, "truecolor", "xterm-256color"), color_depth::full);
  EXPECT_EQ(colors_of(true, nullptr, nullptr, "xterm-256color"), color_depth::indexed);
  EXPECT_EQ(colors_of(true, nullptr, nullptr, "dumb"), color_depth::none);
  EXPECT_EQ(colors_of(true, "1", "truecolor", "xterm"), color_depth::none);
  EXPECT_EQ(colors_of(true, "", "truecolor", "xterm"), color_depth::full);
  EXPECT_EQ(colors_of(false, nullptr, "truecolor", "xterm"), color_depth::none);
}

TEST(Terminal, SequencesAreEmptyWithoutColours) {
  EXPECT_EQ(foreground(color_depth::none, {1, 2, 3}) + plain(color_depth::none), "");
  EXPECT_EQ(strong(color_depth::none, "text"), "text");
  EXPECT_EQ(foreground(color_depth::full, {1, 2, 3}), "\x1b[38;2;1;2;3m");
  EXPECT_EQ(background(color_depth::indexed, {255, 255, 255}), "\x1b[48;5;231m");
  EXPECT_EQ(background(color_depth::indexed, {0, 0, 0}), "\x1b[48;5;16m");
}

}  // namespace
}  // namespace penstock::cli
