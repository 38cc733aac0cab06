#include "client/cli/terminal.hpp"

#include <gtest/gtest.h>

#include "client/cli/plot.hpp"

namespace penstock::cli {
namespace {

std::string labels(const axis& side, int at_most) {
  std::string all;
  for (const tick& each : side.ticks(at_most)) {
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
