#include "client/cpp/post_box.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace penstock::link {
namespace {

bool rings(const post_box& box) {
  pollfd descriptor{box.descriptor(), POLLIN, 0};
  return ::poll(&descriptor, 1, 0) == 1;
}

TEST(PostBox, RingsUntilWhatWasPostedIsTaken) {
  post_box box;
  EXPECT_FALSE(rings(box));
  ASSERT_TRUE(box.fall_asleep());
  command what = cancellation{7};
  ASSERT_TRUE(box.post(what));
  EXPECT_TRUE(rings(box));
  std::vector<command> taken;
  box.take_all(taken);
  EXPECT_EQ(taken.size(), 1U);
  EXPECT_FALSE(rings(box));
}

TEST(PostBox, RingsForNobodyWhoIsAwake) {
  post_box box;
  command what = cancellation{7};
  ASSERT_TRUE(box.post(what));
  EXPECT_FALSE(rings(box));
  EXPECT_FALSE(box.fall_asleep());
  std::vector<command> taken;
  box.take_all(taken);
  EXPECT_EQ(taken.size(), 1U);
  EXPECT_TRUE(box.fall_asleep());
}

// Whoever takes the last commands may be about to sleep: it must not sleep for ever.
TEST(PostBox, RingsForEverOnceItIsClosed) {
  post_box box;
  command what = cancellation{7};
  ASSERT_TRUE(box.post(what));
  box.close();
  std::vector<command> taken;
  box.take_all(taken);
  EXPECT_EQ(taken.size(), 1U);
  EXPECT_TRUE(rings(box));
  EXPECT_FALSE(box.post(what));
}

}  // namespace
}  // namespace penstock::link
