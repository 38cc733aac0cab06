#include "daemon/service/reload.hpp"

#include <gtest/gtest.h>

namespace penstock {
namespace {

using namespace std::chrono_literals;

TEST(LiveConfiguration, CommitCountsOnlyWhereEveryShardHasTakenIt) {
  EXPECT_EQ(fault_of_commit({true, true}, 5s), "");
  EXPECT_EQ(fault_of_commit({true, std::nullopt}, 5s),
            "shard 1 did not say within 5 s that it took it, and takes it when it goes on");
  EXPECT_EQ(fault_of_commit({false, true}, 5s), "shard 0 did not take it: restart the daemon");
}

}  // namespace
}  // namespace penstock
