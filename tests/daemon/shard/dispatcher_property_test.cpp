#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/shard/random_walk.hpp"

namespace penstock {
namespace {

using testing::random_walk;

struct property_row {
  completion_mode mode;
  std::uint64_t seed;
};

std::string name_of(const ::testing::TestParamInfo<property_row>& row) {
  return (row.param.mode == completion_mode::poll ? "Poll" : "Callback") + std::to_string(row.param.seed);
}

std::vector<property_row> rows(std::uint64_t seeds) {
  std::vector<property_row> all;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    all.push_back({completion_mode::callback, seed});
    all.push_back({completion_mode::poll, seed});
  }
  return all;
}

class DispatcherProperty : public ::testing::TestWithParam<property_row> {};

TEST_P(DispatcherProperty, EverythingAddsUpAfterEveryStep) {
  random_walk walk(GetParam().seed, GetParam().mode, 1 + GetParam().seed % 5,
                   1 + static_cast<int>(GetParam().seed % 3));
  for (int step = 0; step < 4000 && !HasFailure(); ++step) {
    SCOPED_TRACE("seed " + std::to_string(GetParam().seed) + ", step " + std::to_string(step));
    walk.step();
  }
  walk.end_in_peace();
}

TEST_P(DispatcherProperty, EveryRequestIsAnsweredWhenTheDeviceIsLost) {
  random_walk walk(GetParam().seed, GetParam().mode, 1 + GetParam().seed, 1 + static_cast<int>(GetParam().seed % 3));
  for (int step = 0; step < 500 && !HasFailure(); ++step) {
    SCOPED_TRACE("seed " + std::to_string(GetParam().seed) + ", step " + std::to_string(step));
    walk.step();
  }
  walk.end_with_a_fault();
}

INSTANTIATE_TEST_SUITE_P(Seeds, DispatcherProperty, ::testing::ValuesIn(rows(8)), name_of);

class DispatcherCancel : public ::testing::TestWithParam<property_row> {};

// All rows together: 100,000 cancels.
TEST_P(DispatcherCancel, AtEveryStepEndsARequestOnceAndLosesNothing) {
  constexpr std::uint64_t cancels = 12500;
  constexpr std::uint64_t check_every = 64;
  SCOPED_TRACE("seed " + std::to_string(GetParam().seed));
  random_walk walk(GetParam().seed, GetParam().mode, 4 + 4 * GetParam().seed, 4);
  for (std::uint64_t fired = 0; fired < cancels && !HasFailure();) {
    for (std::uint64_t between = 0; between < 4 + fired % 8; ++between) {
      walk.step(check_every);
    }
    fired += walk.cancel_one() ? 1U : 0U;
  }
  walk.end_in_peace();
  for (const request_step each : {request_step::queued, request_step::batched, request_step::executing}) {
    EXPECT_GT(walk.cancelled_at(each), cancels / 100) << name_of(each);
  }
  EXPECT_GT(walk.cancelled_at(request_step::held), 5U) << "it takes an earlier one that is neither done nor cancelled";
}

INSTANTIATE_TEST_SUITE_P(Seeds, DispatcherCancel, ::testing::ValuesIn(rows(4)), name_of);

}  // namespace
}  // namespace penstock
