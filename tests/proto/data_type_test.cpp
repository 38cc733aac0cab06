#include "proto/data_type.hpp"

#include <gtest/gtest.h>

namespace penstock::wire {
namespace {

TEST(DataType, CountsTheBytesOfAnItem) {
  EXPECT_EQ(uint8_type.item_bytes(), 1U);
  EXPECT_EQ(int8_type.item_bytes(), 1U);
  EXPECT_EQ(int16_type.item_bytes(), 2U);
  EXPECT_EQ(int32_type.item_bytes(), 4U);
  EXPECT_EQ(float32_type.item_bytes(), 4U);
  EXPECT_EQ(complex64_type.item_bytes(), 8U);
}

TEST(DataType, MultipliesByLanes) {
  EXPECT_EQ((data_type{2, 32, 4}.item_bytes()), 16U);
}

TEST(DataType, HasNoItemBytesWhenTheyAreNotWhole) {
  EXPECT_EQ((data_type{1, 4, 1}.item_bytes()), 0U);
  EXPECT_EQ((data_type{1, 4, 2}.item_bytes()), 1U);
}

TEST(DataType, DoesNotOverflowAtItsLimits) {
  EXPECT_EQ((data_type{1, 248, 65535}.item_bytes()), 31U * 65535U);
}

}  // namespace
}  // namespace penstock::wire
