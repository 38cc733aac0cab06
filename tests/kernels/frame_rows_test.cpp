#include "kernels/frame_rows.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(FrameRows, OfOneDimensionAreTheFrames) {
  const frame_rows rows{{.type = element_type::f32, .shape = {100}}};
  EXPECT_EQ(rows.count({.frames = 3, .leading = 7}), 3);
  EXPECT_EQ(rows.length({.frames = 3, .leading = 7}), 100);
  EXPECT_FALSE(rows.has_variable_length());
}

TEST(FrameRows, OfOneVariableDimensionAreAsLongAsItIs) {
  const frame_rows rows{{.type = element_type::f32, .shape = {100}, .variable = true}};
  EXPECT_EQ(rows.count({.frames = 3, .leading = 7}), 3);
  EXPECT_EQ(rows.length({.frames = 3, .leading = 7}), 7);
  EXPECT_EQ(rows.max_length(), 100);
  EXPECT_TRUE(rows.has_variable_length());
}

TEST(FrameRows, AreAllExtentsButTheLast) {
  const frame_rows rows{{.type = element_type::f32, .shape = {4, 5, 6}}};
  EXPECT_EQ(rows.count({.frames = 2, .leading = 3}), 40);
  EXPECT_EQ(rows.length({.frames = 2, .leading = 3}), 6);
}

TEST(FrameRows, AreFewerWhereTheLeadingExtentIs) {
  const frame_rows rows{{.type = element_type::f32, .shape = {4, 5, 6}, .variable = true}};
  EXPECT_EQ(rows.count({.frames = 2, .leading = 3}), 30);
  EXPECT_EQ(rows.length({.frames = 2, .leading = 3}), 6);
  EXPECT_FALSE(rows.has_variable_length());
}

}  // namespace
}  // namespace penstock
