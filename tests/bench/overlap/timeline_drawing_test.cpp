// The drawing: bars are where their times say, in the row of their stream.

#include "tests/bench/overlap/timeline_drawing.hpp"

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

struct drawn_bar {
  double x;
  double y;
  double width;
};

std::vector<drawn_bar> bars_in(const std::string& svg) {
  static const std::regex form("class=\"bar\" x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\"");
  std::vector<drawn_bar> found;
  for (std::sregex_iterator each(svg.begin(), svg.end(), form); each != std::sregex_iterator(); ++each) {
    found.push_back({std::stod((*each)[1]), std::stod((*each)[2]), std::stod((*each)[3])});
  }
  return found;
}

ordered_json bar(int stream, const char* what, double begin, double end) {
  return {{"stream", stream}, {"what", what}, {"begin_us", begin}, {"end_us", end}};
}

TEST(TimelineDrawing, BarsAreAsLongAsTheirTimes) {
  const std::vector<drawn_bar> bars =
      bars_in(draw_timeline({bar(0, "copy in", 0, 100), bar(0, "compute", 100, 400), bar(0, "copy out", 400, 450)}));
  ASSERT_EQ(bars.size(), 3U);
  EXPECT_NEAR(bars[1].width / bars[0].width, 3, 1e-3);
  EXPECT_NEAR(bars[0].x + bars[0].width, bars[1].x, 0.02);
  EXPECT_NEAR(bars[1].x + bars[1].width, bars[2].x, 0.02);
}

TEST(TimelineDrawing, EachStreamHasARowOfItsOwnInTheirOrder) {
  const std::string svg = draw_timeline({bar(5, "copy in", 0, 1), bar(2, "copy in", 1, 2), bar(5, "compute", 1, 2)});
  const std::vector<drawn_bar> bars = bars_in(svg);
  ASSERT_EQ(bars.size(), 3U);
  EXPECT_EQ(bars[0].y, bars[2].y);
  EXPECT_LT(bars[1].y, bars[0].y);
  EXPECT_THAT(svg, HasSubstr("stream 2"));
  EXPECT_THAT(svg, HasSubstr("stream 5"));
}

TEST(TimelineDrawing, KindsHaveDifferentColours) {
  const std::string svg = draw_timeline({bar(0, "copy in", 0, 1), bar(0, "compute", 1, 2), bar(0, "copy out", 2, 3)});
  std::vector<std::string> fills;
  static const std::regex form("class=\"bar\"[^>]*fill=\"([^\"]+)\"");
  for (std::sregex_iterator each(svg.begin(), svg.end(), form); each != std::sregex_iterator(); ++each) {
    fills.push_back((*each)[1]);
  }
  ASSERT_EQ(fills.size(), 3U);
  EXPECT_NE(fills[0], fills[1]);
  EXPECT_NE(fills[1], fills[2]);
  EXPECT_NE(fills[0], fills[2]);
}

TEST(TimelineDrawing, NothingIsADrawingWithoutBars) {
  EXPECT_TRUE(bars_in(draw_timeline(ordered_json::array())).empty());
}

TEST(TimelineDrawing, RefusesWhatIsNoBar) {
  EXPECT_THROW((void)draw_timeline({{{"stream", 0}}}), nlohmann::json::exception);
}

}  // namespace
}  // namespace penstock::bench
