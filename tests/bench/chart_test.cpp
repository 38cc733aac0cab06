// The drawing of charts: points are where their values say, and what can't be drawn does no harm.

#include "tests/bench/chart.hpp"

#include <cmath>
#include <limits>
#include <regex>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/chart_axis.hpp"

namespace penstock::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct drawn_point {
  double x;
  double y;
};

// Of the lines of the first name: they have circles. The legend's circle is the last.
std::vector<drawn_point> circles_in(const std::string& svg) {
  static const std::regex form("<circle class=\"point\" cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  std::vector<drawn_point> found;
  for (std::sregex_iterator each(svg.begin(), svg.end(), form); each != std::sregex_iterator(); ++each) {
    found.push_back({std::stod((*each)[1]), std::stod((*each)[2])});
  }
  return found;
}

std::vector<std::string> texts_in(const std::string& svg, const std::string& of_class) {
  const std::regex form("<text class=\"" + of_class + "\"[^>]*>([^<]*)</text>");
  std::vector<std::string> found;
  for (std::sregex_iterator each(svg.begin(), svg.end(), form); each != std::sregex_iterator(); ++each) {
    found.push_back((*each)[1]);
  }
  return found;
}

std::size_t count_of(const std::string& part, const std::string& in) {
  std::size_t count = 0;
  for (std::size_t at = in.find(part); at != std::string::npos; at = in.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::vector<std::string> mark_texts(const chart_axis& axis) {
  std::vector<std::string> texts;
  for (const axis_mark& each : axis.marks()) {
    texts.push_back(each.text);
  }
  return texts;
}

chart one_line(std::vector<double> x, std::vector<double> y) {
  return {"title", "x", "y", false, false, {{"line", std::move(x), std::move(y), {}, {}}}};
}

TEST(ChartAxis, LinearMarksAreRoundAndFromZero) {
  EXPECT_THAT(mark_texts(chart_axis({3, 47}, {false, false, true})), ElementsAre("0", "10", "20", "30", "40", "50"));
}

TEST(ChartAxis, BytesAreMarkedInPowersOfTwo) {
  EXPECT_THAT(mark_texts(chart_axis({4096, 268435456}, {true, true, false})),
              ElementsAre("4 KiB", "64 KiB", "1 MiB", "16 MiB", "256 MiB"));
}

TEST(ChartAxis, ManyDecadesAreMarkedInPowersOfTen) {
  EXPECT_THAT(mark_texts(chart_axis({1, 1000}, {true, false, false})), ElementsAre("1", "10", "100", "1k"));
}

TEST(ChartAxis, FewDecadesAreMarkedAtOneTwoFive) {
  EXPECT_THAT(mark_texts(chart_axis({9, 90}, {true, false, false})), ElementsAre("5", "10", "20", "50", "100"));
}

TEST(ChartAxis, PowersOfTwoAreMarkedWhereTheyAre) {
  EXPECT_THAT(mark_texts(chart_axis({1, 2, 4, 8, 16}, {true, false, false})), ElementsAre("1", "2", "4", "8", "16"));
}

TEST(ChartAxis, ALogarithmicAxisPlacesFactorsEqually) {
  const chart_axis axis({1, 10, 100, 1000}, {true, false, false});
  EXPECT_NEAR(axis.place(10) - axis.place(1), axis.place(1000) - axis.place(100), 1e-9);
}

TEST(ChartAxis, EveryValueIsWithinTheAxis) {
  for (const bool logarithmic : {false, true}) {
    for (const bool bytes : {false, true}) {
      for (const std::vector<double>& values : {std::vector<double>{17, 23}, {0.003, 0.0041}, {5}, {1e9, 3}, {999.9}}) {
        const chart_axis axis(values, {logarithmic, bytes, true});
        ASSERT_GE(axis.marks().size(), 2U);
        for (const double each : values) {
          EXPECT_GE(axis.place(each), -1e-9);
          EXPECT_LE(axis.place(each), 1 + 1e-9);
        }
      }
    }
  }
}

TEST(Chart, PointsAreWhereTheirValuesSay) {
  const std::vector<drawn_point> points = circles_in(draw_charts({one_line({0, 1, 3}, {0, 10, 30})}));
  ASSERT_EQ(points.size(), 4U);
  EXPECT_NEAR((points[2].x - points[0].x) / (points[1].x - points[0].x), 3, 0.01);
  EXPECT_NEAR((points[2].y - points[0].y) / (points[1].y - points[0].y), 3, 0.01);
  EXPECT_LT(points[1].y, points[0].y);
}

TEST(Chart, TheLegendNamesEachLineOnceAndItHasOneColour) {
  chart second = one_line({1, 2}, {1, 2});
  second.lines.insert(second.lines.begin(), {"other", {1, 2}, {2, 1}, {}, {}});
  const std::string svg = draw_charts({one_line({1, 2}, {1, 2}), second});
  EXPECT_THAT(texts_in(svg, "name"), ElementsAre("line", "other"));
  EXPECT_EQ(count_of("<g class=\"c0\">", svg), 3U);
  EXPECT_EQ(count_of("<g class=\"c1\">", svg), 2U);
}

TEST(Chart, LinesBeyondTheColoursAreDashed) {
  chart many = one_line({1, 2}, {1, 2});
  for (int line = 1; line < 9; ++line) {
    many.lines.push_back({"line " + std::to_string(line), {1, 2}, {1, 2}, {}, {}});
  }
  EXPECT_EQ(count_of("stroke-dasharray", draw_charts({many})), 2U);
}

TEST(Chart, ASpreadIsABandAndOfOnePointABar) {
  chart spread = one_line({1, 2}, {5, 6});
  EXPECT_THAT(draw_charts({spread}), Not(HasSubstr("class=\"band\"")));
  spread.lines.front().least = {4, 5};
  spread.lines.front().most = {6, 7};
  EXPECT_THAT(draw_charts({spread}), HasSubstr("class=\"band\""));
  spread.lines.front() = {"line", {1}, {5}, {4}, {6}};
  EXPECT_THAT(draw_charts({spread}), AllOf(HasSubstr("class=\"bar\""), Not(HasSubstr("class=\"band\""))));
}

TEST(Chart, WhatAnAxisCannotShowIsLeftOut) {
  chart some = one_line({0, 1, 10, 100}, {1, std::nan(""), 10, std::numeric_limits<double>::infinity()});
  some.log_x = true;
  some.log_y = true;
  const std::string svg = draw_charts({some});
  EXPECT_EQ(circles_in(svg).size(), 2U);  // one point, and the legend's
  EXPECT_THAT(svg, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(Chart, NothingIsADrawingToo) {
  for (const std::vector<chart>& charts : {std::vector<chart>{}, {one_line({}, {})}}) {
    EXPECT_THAT(draw_charts(charts), AllOf(HasSubstr("</svg>"), Not(HasSubstr("nan"))));
  }
}

TEST(Chart, TextsAreEscaped) {
  chart odd = one_line({1, 2}, {1, 2});
  odd.title = "a < b & \"c\"";
  odd.lines.front().name = "<script>";
  EXPECT_THAT(draw_charts({odd}),
              AllOf(HasSubstr("a &lt; b &amp; &quot;c&quot;"), HasSubstr("&lt;script&gt;"), Not(HasSubstr("<script"))));
}

TEST(Chart, FollowsThePreferenceForDark) {
  EXPECT_THAT(draw_charts({one_line({1, 2}, {1, 2})}), HasSubstr("prefers-color-scheme:dark"));
}

TEST(Chart, RefusesALineWithUnequalLengths) {
  EXPECT_THROW((void)draw_charts({one_line({1, 2}, {1})}), std::invalid_argument);
  chart spread = one_line({1, 2}, {1, 2});
  spread.lines.front().least = {1, 2};
  EXPECT_THROW((void)draw_charts({spread}), std::invalid_argument);
}

}  // namespace
}  // namespace penstock::bench
