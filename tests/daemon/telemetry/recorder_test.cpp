#include "daemon/telemetry/recorder.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/exec/stream_pool.hpp"
#include "tests/daemon/device/device_contract.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/scheduler_rig.hpp"
#include "tests/support/start.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::rig_shape;
using testing::scheduler_rig;
using testing::start;

constexpr timing_settings every_batch{.batches_per_second = 1'000'000, .recent_batches = 64};

// Takes so long on the device, and does nothing.
class slow_operation : public operation {
 public:
  slow_operation(testing::manual_device& on, nanoseconds& device_time, nanoseconds spends)
      : on_(on), device_time_(device_time), spends_(spends) {}
  fault run(void* /*stream*/, const operation_arguments& /*with*/) noexcept override {
    device_time_ += spends_;
    on_.set_time(device_time_);
    return {};
  }

 private:
  testing::manual_device& on_;
  nanoseconds& device_time_;
  nanoseconds spends_;
};

class Recorder : public ::testing::Test {
 protected:
  void open(rig_shape shape = {}) {
    shape.timing = shape.timing.batches_per_second == 0 ? every_batch : shape.timing;
    rig_ = std::make_unique<scheduler_rig>(shape);
  }
  // The host and the device go on by this.
  void pass(nanoseconds time) {
    rig_->now += time;
    device_time_ += time;
    rig_->device.set_time(device_time_);
  }
  // A request that is a batch by itself, done at once.
  void run_batch(std::uint64_t id) {
    rig_->submit(id);
    rig_->settle();
    rig_->device.finish_all();
    rig_->settle();
  }
  [[nodiscard]] recent_batches::kept_batch last() {
    recent_batches& all = rig_->timeline.batches();
    return all.at(all.next() - 1);
  }
  [[nodiscard]] std::size_t timed() {
    std::size_t count = 0;
    recent_batches& all = rig_->timeline.batches();
    for (std::uint64_t each = all.oldest(); each < all.next(); ++each) {
      count += all.at(each).steps.empty() ? 0U : 1U;
    }
    return count;
  }
  [[nodiscard]] const pipeline_timing& timing() const { return rig_->timeline.timing().front(); }

  nanoseconds device_time_{0};
  std::unique_ptr<scheduler_rig> rig_;
};

TEST_F(Recorder, KeepsTheLifeOfABatchAndItsRequests) {
  open({.streams = 1});
  rig_->submit(1);
  rig_->settle();
  const time_point begin = rig_->now;
  pass(10us);
  rig_->settle();
  rig_->submit(3, {.frames = 2});
  rig_->settle();
  pass(20us);
  rig_->submit(4);
  pass(600us);
  rig_->settle();
  rig_->finish(0);
  pass(50us);
  rig_->finish(0);
  const recent_batches::kept_batch batch = last();
  EXPECT_EQ(batch.record.number, 2U);
  EXPECT_EQ(batch.record.reason, close_reason::delay);
  EXPECT_EQ(batch.record.frames, 3);
  EXPECT_EQ(batch.record.requests, 2U);
  EXPECT_EQ(batch.record.oldest - begin, 10us);
  EXPECT_EQ(batch.record.opened - begin, 10us);
  EXPECT_EQ(batch.record.closed - begin, 630us);
  EXPECT_EQ(batch.record.launched - begin, 630us);
  EXPECT_EQ(batch.record.completed - begin, 680us);
  EXPECT_EQ(batch.record.returned - begin, 680us);
  ASSERT_EQ(batch.streams.size(), 1U);
  EXPECT_EQ(batch.streams[0], 0U);
  ASSERT_EQ(batch.references.size(), 2U);
  EXPECT_EQ(batch.references[0].id, 3U);
  EXPECT_EQ(batch.references[1].id, 4U);
  EXPECT_EQ(batch.references[1].received - begin, 30us);
  EXPECT_FALSE(batch.references[0].ended_early);
}

TEST_F(Recorder, TellsStepsByTheDevicesClockFromTheLaunchOn) {
  open({.streams = 1});
  rig_->plans[0].stages[0].compiled = std::make_unique<slow_operation>(rig_->device, device_time_, 30us);
  rig_->plans[0].stages[1].compiled = std::make_unique<slow_operation>(rig_->device, device_time_, 12us);
  rig_->device.set_time(0us);
  rig_->submit(1);
  rig_->settle();
  pass(7us);
  rig_->device.finish(0);
  rig_->now += 42us;
  rig_->settle();
  const recent_batches::kept_batch batch = last();
  ASSERT_EQ(batch.steps.size(), 5U);
  const std::array<std::pair<nanoseconds, nanoseconds>, 5> expected{
      {{7us, 7us}, {7us, 37us}, {37us, 49us}, {49us, 49us}, {49us, 49us}}};
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_EQ(batch.steps[step].begin, expected[step].first) << step;
    EXPECT_EQ(batch.steps[step].end, expected[step].second) << step;
  }
  EXPECT_EQ(timing().compute.count(), 1U);
  EXPECT_EQ(timing().compute.max(), 42us);
  EXPECT_EQ(timing().copy_in.max(), 0us);
  EXPECT_EQ(timing().copy_out.count(), 1U);
}

TEST_F(Recorder, AddsUpWhereTheTimeOfRequestsGoes) {
  open({.streams = 1});
  rig_->submit(1, {.frames = 2});
  rig_->settle();
  rig_->submit(2);
  rig_->settle();
  rig_->submit(3);
  pass(100us);
  rig_->finish(0);
  pass(50us);
  rig_->finish(0);
  rig_->device.finish_all();
  rig_->settle();
  EXPECT_EQ(timing().queued.count(), 3U);
  EXPECT_EQ(timing().device.count(), 3U);
  EXPECT_EQ(timing().total.count(), 3U);
  EXPECT_DOUBLE_EQ(timing().total.sum_ns() - timing().queued.sum_ns() - timing().device.sum_ns(), 0);
  EXPECT_EQ(timing().total.max(), 150us);
}

TEST_F(Recorder, TimesAtMostSoManyBatchesASecond) {
  open({.timing = {.batches_per_second = 10, .recent_batches = 1000}});
  rig_->device.let_run();
  for (std::uint64_t batch = 0; batch < 500; ++batch) {
    run_batch(batch + 1);
    pass(2ms);
  }
  EXPECT_EQ(rig_->timeline.batches().next(), 501U);
  EXPECT_EQ(timed(), 10U);
}

TEST_F(Recorder, UsesNoEventsWhenNothingIsToBeTimed) {
  rig_ = std::make_unique<scheduler_rig>(rig_shape{.streams = 1});
  EXPECT_EQ(rig_->device.streams(), 1U);
  run_batch(1);
  EXPECT_TRUE(last().steps.empty());
  EXPECT_EQ(timing().total.count(), 1U);
  EXPECT_EQ(timing().compute.count(), 0U);
}

TEST_F(Recorder, KeepsWhatItWasToldWhileTheSlotIsStillBeingSentFrom) {
  open();
  rig_->replied.lend = true;
  run_batch(1);
  EXPECT_EQ(last().record.returned, never);
  pass(3ms);
  rig_->drop_lent();
  rig_->settle();
  EXPECT_EQ(last().record.returned, rig_->now);
  EXPECT_EQ(last().record.returned - last().record.completed, 3ms);
}

TEST_F(Recorder, SaysWhichRequestsEndedBeforeTheirBatch) {
  open();
  rig_->submit(1, {.timeout = 1ms});
  rig_->settle();
  pass(2ms);
  rig_->expire();
  rig_->device.finish_all();
  rig_->settle();
  ASSERT_EQ(last().references.size(), 1U);
  EXPECT_TRUE(last().references[0].ended_early);
  EXPECT_EQ(timing().total.count(), 0U);
}

TEST_F(Recorder, ReadsNoTimesOfABatchThatFailed) {
  open({.streams = 1});
  rig_->submit(1);
  rig_->settle();
  rig_->device.finish(0, {"cudaErrorIllegalAddress"});
  rig_->settle();
  EXPECT_TRUE(last().record.failed);
  EXPECT_TRUE(last().steps.empty());
  EXPECT_EQ(timing().device.count(), 0U);
  EXPECT_NE(rig_->clocks.claim(), nullptr);
}

TEST_F(Recorder, KeepsTheFirstSixteenRequestsAndCountsAll) {
  rig_ = std::make_unique<scheduler_rig>(rig_shape{.streams = 1}, std::vector<testing::plan_wish>{{.max_frames = 40}});
  rig_->submit(1);
  rig_->settle();
  for (std::uint64_t id = 2; id <= 21; ++id) {
    rig_->submit(id);
  }
  pass(10ms);
  rig_->settle();
  rig_->device.finish_all();
  rig_->settle();
  EXPECT_EQ(last().record.requests, 20U);
  ASSERT_EQ(last().references.size(), 16U);
  EXPECT_EQ(last().references.front().id, 2U);
  EXPECT_EQ(last().references.back().id, 17U);
}

// A device whose times cost a millisecond to read: the clock that the recorder asks goes on by that.
TEST(RecorderCost, RestsForTwoHundredTimesWhatReadingCost) {
  testing::manual_device device;
  device.let_run();
  const std::vector<plan> plans = testing::hand_made_plans({{}});
  wake_event signal;
  completion_queue completed(signal);
  slot_ring slots(device, 2, size_for(plans), false, completed, signal);
  state_pool states(device, plans, 1);
  clock_pool clocks(device, plans, 2);
  stream_pool streams(device, 1, std::array{stream_class{}}, completion_mode::callback, states);
  time_point asked{1h};
  recorder timeline(device, clocks, plans, 2, every_batch, [&] { return asked += 1ms; });
  std::vector<time_point> timed;
  for (time_point now{2h}; now < time_point{2h} + 1s; now += 1ms) {
    timeline.turn(now);
    slot& filled = *slots.claim();
    filled.work.pipeline = &plans.front();
    filled.work.leading = 16;
    filled.work.frames = 1;
    timeline.opened(filled);
    timeline.closed(filled);
    timeline.launching(filled);
    if (filled.clock != nullptr) {
      timed.push_back(now);
    }
    ASSERT_FALSE(streams.launch(filled, now).error);
    ASSERT_EQ(completed.take(), &filled.completed);
    streams.retire(filled, filled.work.launched);
    timeline.completed(filled);
    slot_ring::drop(filled);
    slots.collect();
    timeline.collected();
  }
  ASSERT_EQ(timed.size(), 5U);
  for (std::size_t each = 1; each < timed.size(); ++each) {
    EXPECT_EQ(timed[each] - timed[each - 1], 200ms);
  }
}

// A batch of a plan on so many lanes, after a start with plans on at most `at_start`.
class RecorderOfWidePlans : public ::testing::Test {
 protected:
  recent_batches::kept_batch record(std::uint32_t at_start, std::uint32_t lanes) {
    plans_.front().order.lanes = at_start;
    clocks_.emplace(device_, plans_, 1);
    timeline_.emplace(device_, *clocks_, plans_, 1, every_batch, [] { return time_point{1h}; });
    plans_.front().order.lanes = lanes;
    slot_.work.pipeline = &plans_.front();
    for (std::uint32_t stream = 0; stream < lanes; ++stream) {
      slot_.streams.push_back(stream);
    }
    timeline_->launching(slot_);
    timed_ = slot_.clock != nullptr;
    timeline_->completed(slot_);
    return timeline_->batches().at(timeline_->batches().next() - 1);
  }

  testing::manual_device device_;
  std::vector<plan> plans_ = testing::hand_made_plans({{}});
  slot slot_;
  std::optional<clock_pool> clocks_;
  std::optional<recorder> timeline_;
  bool timed_ = false;
};

TEST_F(RecorderOfWidePlans, KeepsEveryStreamOfABatch) {
  EXPECT_EQ(record(12, 12).streams.size(), 12U);
  EXPECT_TRUE(timed_);
}

TEST_F(RecorderOfWidePlans, DoesNotTimeWhatRanOnMoreStreamsThanItKeeps) {
  EXPECT_EQ(record(1, 12).streams.size(), 8U);
  EXPECT_FALSE(timed_);
}

// When batches that come once every `step` are timed.
std::vector<time_point> taken(sampling& rate, time_point begin, std::chrono::nanoseconds step,
                              std::chrono::seconds span) {
  std::vector<time_point> all;
  for (time_point now = begin; now < begin + span; now += step) {
    if (rate.take(now)) {
      all.push_back(now);
    }
  }
  return all;
}

TEST(Sampling, TakesSoManyASecondEvenlySpread) {
  sampling rate(300);
  const std::vector<time_point> all = taken(rate, start, 70us, 10s);
  EXPECT_NEAR(static_cast<double>(all.size()), 3000, 1);
  for (std::size_t each = 1; each < all.size(); ++each) {
    EXPECT_NEAR(static_cast<double>((all[each] - all[each - 1]).count()), 1e9 / 300, 70e3);
  }
}

TEST(Sampling, GoesOnAtAnotherRateAndAtNone) {
  sampling rate(300);
  EXPECT_NEAR(static_cast<double>(taken(rate, start, 70us, 1s).size()), 300, 1);
  rate.set_rate(0);
  EXPECT_TRUE(taken(rate, start + 1s, 70us, 1s).empty());
  rate.set_rate(50);
  EXPECT_NEAR(static_cast<double>(taken(rate, start + 2s, 70us, 1s).size()), 50, 1);
}

TEST(Sampling, TakesEveryBatchThatComesLessOften) {
  sampling rate(300);
  EXPECT_EQ(taken(rate, start, 10ms, 1s).size(), 100U);
}

TEST(Sampling, DoesNotMakeUpForAQuietTime) {
  sampling rate(10);
  EXPECT_TRUE(rate.take(start));
  EXPECT_EQ(taken(rate, start + 1h, 1ms, 1s).size(), 10U);
}

TEST(Sampling, TakesNoneAtZeroASecond) {
  sampling rate(0);
  EXPECT_TRUE(taken(rate, start, 1ms, 1s).empty());
}

TEST(Sampling, TakesNoneDuringAPause) {
  sampling rate(1000);
  rate.pause(start + 500ms);
  EXPECT_FALSE(rate.take(start + 499ms));
  EXPECT_TRUE(rate.take(start + 500ms));
  rate.pause(start);
  EXPECT_TRUE(rate.take(start + 501ms));
}

}  // namespace
}  // namespace penstock

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
  wake_event signal;
  completion_queue completed(signal);
  slot_ring slots(target(), 1, size_for(plans), false, completed, signal);
  state_pool states(target(), plans, 1);
  clock_pool clocks(target(), plans, 1);
  stream_pool streams(target(), 2, std::array{stream_class{}}, completion_mode::callback, states);
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
  ASSERT_FALSE(streams.launch(batch, launched).error);
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
