#include "daemon/timeline/recent_batches.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(RecentBatches, NumbersBatchesFromOneAndHasNoneAtFirst) {
  recent_batches kept(4, 3, 2);
  EXPECT_EQ(kept.oldest(), kept.next());
  EXPECT_FALSE(kept.has(0));
  EXPECT_FALSE(kept.has(1));
  EXPECT_EQ(kept.add().what.number, 1U);
  EXPECT_TRUE(kept.has(1));
  EXPECT_FALSE(kept.has(2));
}

TEST(RecentBatches, KeepsTheLastOnesWhenItWraps) {
  recent_batches kept(4, 3, 2);
  for (std::uint32_t each = 1; each <= 11; ++each) {
    const recent_batches::kept_batch added = kept.add();
    added.what.frames = each;
    added.what.references = 1;
    added.references[0].id = each * 10;
    added.what.steps = each % 2 == 0 ? 3 : 0;
    added.steps[2].end = std::chrono::nanoseconds{each};
    added.what.streams = 2;
    added.streams[1] = each * 100;
  }
  EXPECT_EQ(kept.oldest(), 8U);
  EXPECT_EQ(kept.next(), 12U);
  EXPECT_FALSE(kept.has(7));
  for (std::uint32_t each = 8; each <= 11; ++each) {
    const recent_batches::kept_batch found = kept.at(each);
    EXPECT_EQ(found.what.number, each);
    EXPECT_EQ(found.what.frames, each);
    ASSERT_EQ(found.references.size(), 1U);
    EXPECT_EQ(found.references[0].id, each * 10);
    ASSERT_EQ(found.streams.size(), 2U);
    EXPECT_EQ(found.streams[1], each * 100);
    ASSERT_EQ(found.steps.size(), each % 2 == 0 ? 3U : 0U);
    if (!found.steps.empty()) {
      EXPECT_EQ(found.steps[2].end.count(), each);
    }
  }
}

TEST(RecentBatches, ForgetsWhatStoodInThePlaceBefore) {
  recent_batches kept(1, 1, 1);
  kept.add().what.failed = true;
  const recent_batches::kept_batch second = kept.add();
  EXPECT_FALSE(second.what.failed);
  EXPECT_EQ(second.what.returned, never);
  EXPECT_EQ(second.references.size(), recent_batches::most_references);
}

}  // namespace
}  // namespace penstock
