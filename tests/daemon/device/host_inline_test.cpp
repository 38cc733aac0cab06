#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/device/backend.hpp"
#include "tests/daemon/device/completion_log.hpp"
#include "tests/daemon/device/device_contract.hpp"
#include "tests/daemon/device/host_gate.hpp"

namespace penstock::testing {
namespace {

/// A host device of one worker, and work that notes which thread did it.
class host_inline : public ::testing::Test {
 protected:
  std::unique_ptr<stream> open_stream() { return device_->open_stream(stream_priority::normal); }
  std::unique_ptr<event> open_event() { return device_->open_event(false); }
  std::unique_ptr<hold> shut(stream& on) {
    EXPECT_ENQUEUED(on.launch(*gate_, {}));
    return std::make_unique<hold>(*gate_);
  }
  void launch(stream& on) { EXPECT_ENQUEUED(on.launch(task_, {})); }
  [[nodiscard]] static std::vector<std::thread::id> here(std::size_t times) {
    return std::vector<std::thread::id>(times, std::this_thread::get_id());
  }

  std::vector<std::thread::id> ran_by_;
  fault gives_;

 private:
  host_task task_{[this] {
    ran_by_.push_back(std::this_thread::get_id());
    return gives_;
  }};
  std::unique_ptr<gate_maker> gates_ = make_host_gates();
  std::unique_ptr<gate> gate_ = gates_->make();
  std::unique_ptr<device> device_ = open_host_device(1);
};

TEST_F(host_inline, DoesBriefWorkWithinTheCallThatHandsItOver) {
  completion_log done(1);
  const auto on = open_stream();
  on->run_inline(true);
  const std::array<char, 4> from{'a', 'b', 'c', 'd'};
  std::array<char, 4> to{};
  EXPECT_ENQUEUED(on->copy_in(to.data(), from.data(), from.size()));
  launch(*on);
  EXPECT_TRUE(ran_by_.empty()) << "nothing says yet that the work is whole";
  EXPECT_ENQUEUED(done.ask(*on));
  EXPECT_EQ(done.count(), 1U);
  EXPECT_EQ(ran_by_, here(1));
  EXPECT_EQ(to, from);
}

TEST_F(host_inline, ReachesARecordedEventAtOnce) {
  const auto on = open_stream();
  const auto point = open_event();
  on->run_inline(true);
  launch(*on);
  EXPECT_ENQUEUED(on->record(*point));
  fault why;
  EXPECT_EQ(point->query(why), event::state::reached);
  EXPECT_EQ(ran_by_, here(1));
}

TEST_F(host_inline, NeedsNoWorker) {
  completion_log done(2);
  const auto busy = open_stream();
  const auto on = open_stream();
  const auto held = shut(*busy);
  EXPECT_ENQUEUED(done.ask(*busy));
  EXPECT_TRUE(held->await_entered()) << "the only worker is taken";
  on->run_inline(true);
  launch(*on);
  EXPECT_ENQUEUED(done.ask(*on));
  EXPECT_EQ(done.order(), std::vector<std::size_t>{1});
}

TEST_F(host_inline, StandsBehindWhatTheWorkersHave) {
  completion_log done(2);
  const auto on = open_stream();
  const auto held = shut(*on);
  EXPECT_ENQUEUED(done.ask(*on));
  EXPECT_TRUE(held->await_entered());
  on->run_inline(true);
  launch(*on);
  EXPECT_ENQUEUED(done.ask(*on));
  EXPECT_EQ(done.count(), 0U);
  held->open();
  EXPECT_TRUE(done.await(2));
  EXPECT_EQ(done.order(), (std::vector<std::size_t>{0, 1}));
  EXPECT_NE(ran_by_, here(1));
}

TEST_F(host_inline, LeavesWhatHasToWaitToTheWorkers) {
  completion_log done(1);
  const auto other = open_stream();
  const auto on = open_stream();
  const auto point = open_event();
  const auto held = shut(*other);
  EXPECT_ENQUEUED(other->record(*point));
  on->run_inline(true);
  launch(*on);
  EXPECT_ENQUEUED(on->wait(*point));
  launch(*on);
  EXPECT_ENQUEUED(done.ask(*on));
  EXPECT_EQ(ran_by_, here(1)) << "what stands before the wait";
  EXPECT_EQ(done.count(), 0U);
  held->open();
  EXPECT_TRUE(done.await(1));
  ASSERT_EQ(ran_by_.size(), 2U);
  EXPECT_NE(ran_by_.back(), std::this_thread::get_id());
}

TEST_F(host_inline, HandsOverAgainWhatIsNotBrief) {
  completion_log done(2);
  const auto on = open_stream();
  for (const bool brief : {true, false}) {
    on->run_inline(brief);
    launch(*on);
    EXPECT_ENQUEUED(done.ask(*on));
    EXPECT_TRUE(done.await(1));
    EXPECT_EQ(ran_by_.back() == std::this_thread::get_id(), brief);
  }
}

TEST_F(host_inline, FindsNoWorkerThereAfterASynchronize) {
  constexpr std::size_t times = 2000;
  const auto on = open_stream();
  const auto point = open_event();
  for (std::size_t each = 0; each < times; ++each) {
    on->run_inline(false);
    launch(*on);
    EXPECT_ENQUEUED(on->synchronize());
    on->run_inline(true);
    ran_by_.clear();
    launch(*on);
    EXPECT_ENQUEUED(on->record(*point));
    ASSERT_EQ(ran_by_, here(1)) << each;
  }
}

TEST_F(host_inline, TellsTheFaultOfTheWork) {
  completion_log done(1);
  const auto on = open_stream();
  on->run_inline(true);
  gives_ = {"HOST_TEST_FAULT"};
  launch(*on);
  EXPECT_ENQUEUED(done.ask(*on));
  EXPECT_EQ(done.statuses(), std::vector<std::string>{"HOST_TEST_FAULT"});
  EXPECT_STREQ(on->record(*open_event()).name, "HOST_TEST_FAULT");
}

}  // namespace
}  // namespace penstock::testing
