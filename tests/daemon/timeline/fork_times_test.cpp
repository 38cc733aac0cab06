#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "daemon/timeline/recorder.hpp"
#include "daemon/wheel/wheel.hpp"
#include "tests/daemon/device/device_contract.hpp"
#include "tests/support/hand_made_plan.hpp"

namespace penstock::testing {
namespace {

using clock = std::chrono::steady_clock;

// The next completion; nullptr when none comes within a minute.
completion_node* next_of(completion_queue& completed) {
  const auto give_up = clock::now() + std::chrono::minutes{1};
  completion_node* node = completed.take();
  while (node == nullptr && clock::now() < give_up) {
    std::this_thread::yield();
    node = completed.take();
  }
  return node;
}

bool overlap(const step_time& left, const step_time& right) {
  return left.begin < right.end && right.begin < left.end;
}

using fork_times = device_contract;

// Both stages are held at the same time: if their times did not overlap, they would not be the device's.
TEST_P(fork_times, ShowTheBranchesOfAForkAtTheSameTimeOnTwoStreams) {
  std::vector<plan> plans;
  plans.push_back(hand_made_plan(0, {.max_lanes = 2}));
  std::unique_ptr<gate> left = gates().make();
  std::unique_ptr<gate> right = gates().make();
  gate& left_gate = *left;
  gate& right_gate = *right;
  plans[0].stages[0].compiled = std::move(left);
  plans[0].stages[1].compiled = std::move(right);
  wake_signal signal;
  completion_queue completed(signal);
  ring slots(target(), 1, size_for(plans), false, completed, signal);
  state_pool states(target(), plans, 1);
  clock_pool clocks(target(), plans, 1);
  wheel streams(target(), 2, std::array{stream_priority::normal}, completion_mode::callback, states);
  recorder timeline(target(), clocks, plans, 1, {.batches_per_second = 1, .recent_batches = 16}, clock::now);
  hold first(left_gate);
  hold second(right_gate);

  slot& batch = *slots.claim();
  batch.work.pipeline = &plans.front();
  batch.work.leading = plans.front().input().shape.front();
  batch.work.frames = 1;
  const time_point launched = clock::now();
  timeline.turn(launched);
  timeline.opened(batch);
  timeline.closed(batch);
  timeline.launching(batch);
  ASSERT_FALSE(streams.launch(batch, launched).what);
  ASSERT_TRUE(first.await_entered());
  ASSERT_TRUE(second.await_entered());
  const time_point both_held = clock::now();
  first.open();
  second.open();
  ASSERT_EQ(next_of(completed), &batch.completed);
  const time_point done = clock::now();
  streams.retire(batch, batch.work.launched);
  timeline.turn(done);
  timeline.completed(batch);

  const recent_batches::kept_batch kept = timeline.batches().at(1);
  ASSERT_EQ(kept.steps.size(), 5U);
  ASSERT_EQ(kept.streams.size(), 2U);
  EXPECT_NE(kept.streams[0], kept.streams[1]);
  EXPECT_NE(plans[0].order.steps[1].lane, plans[0].order.steps[2].lane);
  EXPECT_TRUE(overlap(kept.steps[1], kept.steps[2]));
  for (const std::size_t stage : {1U, 2U}) {
    EXPECT_GE(kept.steps[stage].begin, kept.steps[0].end) << "before the copy in was done";
    EXPECT_LE(kept.steps[stage].end, kept.steps[stage + 2].begin) << "after its copy out had begun";
    // By the host's clock, with what two clocks may be apart.
    EXPECT_LE(launched + kept.steps[stage].begin, both_held + std::chrono::milliseconds{1});
    EXPECT_GE(launched + kept.steps[stage].end, both_held - std::chrono::milliseconds{1});
    EXPECT_LE(launched + kept.steps[stage].end, done + std::chrono::milliseconds{1});
  }
}

INSTANTIATE_TEST_SUITE_P(backends, fork_times, ::testing::Values("host", "cuda"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace penstock::testing
