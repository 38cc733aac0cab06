#include "daemon/admin/start_progress.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(StartProgress, SlowestStepIsTheOneThatBeganFirst) {
  start_progress progress;
  EXPECT_FALSE(progress.slowest());
  {
    const start_progress::step first(progress, 1, "pipeline 'a' is compiled");
    while (progress.slowest()->time == std::chrono::steady_clock::duration::zero()) {
      std::this_thread::yield();
    }
    const start_progress::step second(progress, 0, "pipeline 'b' is compiled");
    EXPECT_EQ(progress.slowest()->text, "shard 1: pipeline 'a' is compiled");
  }
  EXPECT_FALSE(progress.slowest());
}

}  // namespace
}  // namespace penstock
