#include "client/cpp/command_queue.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace penstock::link {
namespace {

bool is_set(const command_queue& queue) {
  pollfd descriptor{queue.descriptor(), POLLIN, 0};
  return ::poll(&descriptor, 1, 0) == 1;
}

TEST(CommandQueue, EventIsSetUntilTheCommandsAreTaken) {
  command_queue queue;
  EXPECT_FALSE(is_set(queue));
  ASSERT_TRUE(queue.fall_asleep());
  command next = cancellation{7};
  ASSERT_TRUE(queue.post(next));
  EXPECT_TRUE(is_set(queue));
  std::vector<command> taken;
  queue.take_all(taken);
  EXPECT_EQ(taken.size(), 1U);
  EXPECT_FALSE(is_set(queue));
}

TEST(CommandQueue, EventIsNotSetForAThreadThatIsAwake) {
  command_queue queue;
  command next = cancellation{7};
  ASSERT_TRUE(queue.post(next));
  EXPECT_FALSE(is_set(queue));
  EXPECT_FALSE(queue.fall_asleep());
  std::vector<command> taken;
  queue.take_all(taken);
  EXPECT_EQ(taken.size(), 1U);
  EXPECT_TRUE(queue.fall_asleep());
}

// The thread that takes the last commands may be about to sleep.
TEST(CommandQueue, EventStaysSetOnceItIsClosed) {
  command_queue queue;
  command next = cancellation{7};
  ASSERT_TRUE(queue.post(next));
  queue.close();
  std::vector<command> taken;
  queue.take_all(taken);
  EXPECT_EQ(taken.size(), 1U);
  EXPECT_TRUE(is_set(queue));
  EXPECT_FALSE(queue.post(next));
}

}  // namespace

}  // namespace penstock::link
