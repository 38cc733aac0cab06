#include "daemon/device/cuda/completion_ring.hpp"

#include <future>

#include <gtest/gtest.h>

namespace penstock {
namespace {

/// A completion that runs until it may end.
struct held_completion {
  std::promise<void> begun;
  std::promise<void> may_end;

  static void run(void* self, fault) noexcept {
    auto& mine = *static_cast<held_completion*>(self);
    mine.begun.set_value();
    mine.may_end.get_future().wait();
  }
};

class CompletionRing : public testing::Test {
 protected:
  CompletionRing() { EXPECT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess); }
  ~CompletionRing() override { static_cast<void>(cudaStreamDestroy(stream_)); }
  CompletionRing(const CompletionRing&) = delete;
  CompletionRing& operator=(const CompletionRing&) = delete;

  cudaStream_t stream_ = nullptr;
  completion_ring ring_{std::make_shared<cuda_context>(0)};
};

TEST_F(CompletionRing, IsNotEmptyBeforeItsFunctionHasReturned) {
  held_completion held;
  ASSERT_FALSE(ring_.enqueue(stream_, held_completion::run, &held));
  held.begun.get_future().wait();
  EXPECT_FALSE(ring_.empty());
  held.may_end.set_value();
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_TRUE(ring_.empty());
}

TEST_F(CompletionRing, RecordsAreUsedAgainOnceTheirFunctionsHaveReturned) {
  std::atomic<std::size_t> count{0};
  const auto one_more = [](void* counter, fault) noexcept { ++*static_cast<std::atomic<std::size_t>*>(counter); };
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t each = 0; each < completion_ring::capacity; ++each) {
      ASSERT_FALSE(ring_.enqueue(stream_, one_more, &count));
    }
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  EXPECT_EQ(count, 3 * completion_ring::capacity);
  EXPECT_TRUE(ring_.empty());
}

}  // namespace
}  // namespace penstock
