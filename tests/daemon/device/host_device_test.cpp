#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/device/backend.hpp"
#include "daemon/device/host/stream.hpp"
#include "tests/daemon/device/completion_log.hpp"
#include "tests/daemon/device/device_contract.hpp"

namespace penstock::testing {
namespace {

/// A host device with a number of workers that the test chooses, and gates for it.
class host_backend : public ::testing::Test {
 protected:
  void open(int threads) { device_ = open_host_device(threads); }

  std::unique_ptr<stream> open_stream(stream_priority priority = stream_priority::normal) {
    return device_->open_stream(priority);
  }
  std::unique_ptr<event> open_event() { return device_->open_event(false); }
  device& target() { return *device_; }

  /// Holds the stream and the worker that runs it.
  std::unique_ptr<hold> shut(stream& queue) {
    gate& used = *used_.emplace_back(gates_->make());
    EXPECT_ENQUEUED(queue.launch(used, {}));
    return std::make_unique<hold>(used);
  }

 private:
  std::unique_ptr<device> device_;
  std::unique_ptr<gate_maker> gates_ = make_host_gates();
  std::vector<std::unique_ptr<gate>> used_;
};

TEST_F(host_backend, ParksAWaitingStreamWithoutAWorker) {
  open(2);
  constexpr std::size_t waiting = 20;
  completion_log waited(waiting);
  completion_log ran(1);
  const auto first = open_stream();
  const auto free = open_stream();
  const auto point = open_event();
  std::vector<std::unique_ptr<stream>> parked;
  for (std::size_t index = 0; index < waiting; ++index) {
    parked.push_back(open_stream());
  }
  const auto held = shut(*first);
  EXPECT_ENQUEUED(first->record(*point));
  EXPECT_TRUE(held->await_entered());
  for (const auto& each : parked) {
    EXPECT_ENQUEUED(each->wait(*point));
    EXPECT_ENQUEUED(waited.ask(*each));
  }
  EXPECT_ENQUEUED(ran.ask(*free));
  EXPECT_TRUE(ran.await(1));  // the one worker that is left got past all of them
  EXPECT_EQ(waited.count(), 0U);
  held->open();
  EXPECT_TRUE(waited.await(waiting));
}

TEST_F(host_backend, ReleasesEachAtThePositionThatItWaitsFor) {
  open(2);
  constexpr std::size_t points = 3;
  const auto first = open_stream();
  std::vector<std::unique_ptr<event>> reached;
  std::vector<std::unique_ptr<hold>> held;
  for (std::size_t each = 0; each < points; ++each) {
    held.push_back(shut(*first));
    EXPECT_ENQUEUED(first->record(*reached.emplace_back(open_event())));
  }
  // The later ones are watched before the earlier ones.
  std::vector<std::unique_ptr<stream>> waiting;
  std::vector<std::unique_ptr<completion_log>> logs;
  for (std::size_t each = points; each-- > 0;) {
    const auto& made = waiting.emplace_back(open_stream());
    EXPECT_ENQUEUED(made->wait(*reached[each]));
    EXPECT_ENQUEUED(logs.emplace_back(std::make_unique<completion_log>(1))->ask(*made));
  }
  std::atomic<bool> synchronized{false};
  std::thread last([&] {
    EXPECT_FALSE(first->synchronize());
    synchronized = true;
  });
  for (std::size_t each = 0; each < points; ++each) {
    EXPECT_TRUE(held[each]->await_entered());
    for (std::size_t later = each; later < points; ++later) {
      EXPECT_EQ(logs[points - 1 - later]->count(), 0U) << later;
    }
    EXPECT_FALSE(synchronized);
    held[each]->open();
    EXPECT_TRUE(logs[points - 1 - each]->await(1)) << each;
  }
  last.join();
  EXPECT_TRUE(synchronized);
}

TEST_F(host_backend, TakesStreamsOfAHigherPriorityFirst) {
  open(1);
  completion_log log(6);
  const auto blocker = open_stream();
  std::vector<std::unique_ptr<stream>> streams;
  for (const auto priority : {stream_priority::low, stream_priority::normal, stream_priority::high}) {
    streams.push_back(open_stream(priority));
    streams.push_back(open_stream(priority));
  }
  const auto done = open_event();
  const auto held = shut(*blocker);
  EXPECT_ENQUEUED(blocker->record(*done));
  EXPECT_TRUE(held->await_entered());
  for (const auto& each : streams) {
    EXPECT_ENQUEUED(log.ask(*each));
  }
  held->open();
  EXPECT_TRUE(log.await(6));
  EXPECT_THAT(log.order(), ::testing::ElementsAre(4, 5, 2, 3, 0, 1));
}

TEST_F(host_backend, LeavesALowStreamForAHighOneBetweenTwoCommands) {
  open(1);
  completion_log low_done(1);
  completion_log high_done(1);
  const auto low = open_stream(stream_priority::low);
  const auto high = open_stream(stream_priority::high);
  std::size_t high_had_run = 0;
  host_task look([&] {
    high_had_run = high_done.count();
    return fault{};
  });
  const auto held = shut(*low);
  EXPECT_ENQUEUED(low->launch(look, {}));
  EXPECT_ENQUEUED(low_done.ask(*low));
  EXPECT_TRUE(held->await_entered());
  EXPECT_ENQUEUED(high_done.ask(*high));
  held->open();
  EXPECT_TRUE(low_done.await(1));
  EXPECT_EQ(high_had_run, 1U);
}

TEST_F(host_backend, TakesStreamsOfOnePriorityInTurnsOfABatch) {
  open(1);
  completion_log log(4);
  const auto blocker = open_stream();
  const auto first = open_stream();
  const auto second = open_stream();
  const auto done = open_event();
  const auto held = shut(*blocker);
  EXPECT_ENQUEUED(blocker->record(*done));
  EXPECT_TRUE(held->await_entered());
  for (stream* const each : {first.get(), first.get(), second.get(), second.get()}) {
    EXPECT_ENQUEUED(log.ask(*each));
  }
  held->open();
  EXPECT_TRUE(log.await(4));
  EXPECT_THAT(log.order(), ::testing::ElementsAre(0, 2, 1, 3));
}

TEST_F(host_backend, RefusesACommandBeyondTheCapacityAndOnlyThat) {
  open(1);
  completion_log log(1);
  std::uint32_t ran = 0;
  host_task count([&] {
    ++ran;
    return fault{};
  });
  const auto queue = open_stream();
  const auto held = shut(*queue);
  for (std::size_t put = 1; put < host_queue::capacity; ++put) {
    ASSERT_EQ(queue->launch(count, {}).name, nullptr) << put;
  }
  EXPECT_STREQ(queue->launch(count, {}).name, "HOST_STREAM_FULL");
  EXPECT_STREQ(log.ask(*queue).name, "HOST_STREAM_FULL");
  EXPECT_STREQ(target().health().name, nullptr);
  held->open();
  EXPECT_ENQUEUED(queue->synchronize());
  EXPECT_EQ(ran, host_queue::capacity - 1);
  EXPECT_EQ(log.count(), 0U);
  EXPECT_ENQUEUED(queue->launch(count, {}));
  EXPECT_ENQUEUED(queue->synchronize());
  EXPECT_EQ(ran, host_queue::capacity);
}

TEST_F(host_backend, AnswersParkedStreamsWhenItFails) {
  open(2);
  completion_log log(1);
  const auto faulty = make_host_gates()->make_faulty();
  const auto blocked = open_stream();
  const auto parked = open_stream();
  const auto failing = open_stream();
  const auto point = open_event();
  const auto held = shut(*blocked);
  EXPECT_ENQUEUED(blocked->record(*point));
  EXPECT_ENQUEUED(parked->wait(*point));
  EXPECT_ENQUEUED(log.ask(*parked));
  EXPECT_TRUE(held->await_entered());
  EXPECT_ENQUEUED(failing->launch(*faulty, {}));
  EXPECT_STREQ(failing->synchronize().name, "HOST_TEST_FAULT");
  EXPECT_TRUE(log.await(1));  // while the gate that it waits behind is still shut
  EXPECT_THAT(log.statuses(), ::testing::ElementsAre("HOST_TEST_FAULT"));
}

TEST_F(host_backend, KeepsItsFirstFault) {
  open(2);
  host_task first([] { return fault{"FIRST"}; });
  host_task second([] { return fault{"SECOND"}; });
  const auto queue = open_stream();
  const auto held = shut(*queue);
  EXPECT_ENQUEUED(queue->launch(first, {}));
  EXPECT_ENQUEUED(queue->launch(second, {}));
  held->open();
  EXPECT_STREQ(queue->synchronize().name, "FIRST");
  EXPECT_STREQ(target().health().name, "FIRST");
}

TEST_F(host_backend, SaysHowManyWorkersItHas) {
  open(3);
  EXPECT_EQ(target().facts().detail, "3 worker threads");
  open(1);
  EXPECT_EQ(target().facts().detail, "1 worker thread");
  open(0);
  EXPECT_THAT(target().facts().detail, ::testing::ContainsRegex("^[1-9][0-9]* worker thread"));
}

TEST_F(host_backend, RefusesANumberOfWorkersThatMakesNoSense) {
  EXPECT_THROW(open(-1), device_error);
  EXPECT_THROW(open(100'000), device_error);
}

/// One worker, and work that notes which thread did it.
class host_inline : public host_backend {
 protected:
  host_inline() { open(1); }
  void launch(stream& queue) { EXPECT_ENQUEUED(queue.launch(task_, {})); }
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
};

TEST_F(host_inline, DoesBriefWorkWithinTheCallThatHandsItOver) {
  completion_log done(1);
  const auto queue = open_stream();
  queue->run_inline(true);
  const std::array<char, 4> from{'a', 'b', 'c', 'd'};
  std::array<char, 4> to{};
  EXPECT_ENQUEUED(queue->copy_in(to.data(), from.data(), from.size()));
  launch(*queue);
  EXPECT_TRUE(ran_by_.empty()) << "nothing says yet that the work is whole";
  EXPECT_ENQUEUED(done.ask(*queue));
  EXPECT_EQ(done.count(), 1U);
  EXPECT_EQ(ran_by_, here(1));
  EXPECT_EQ(to, from);
}

TEST_F(host_inline, ReachesARecordedEventAtOnce) {
  const auto queue = open_stream();
  const auto point = open_event();
  queue->run_inline(true);
  launch(*queue);
  EXPECT_ENQUEUED(queue->record(*point));
  fault why;
  EXPECT_EQ(point->query(why), event::state::reached);
  EXPECT_EQ(ran_by_, here(1));
}

TEST_F(host_inline, NeedsNoWorker) {
  completion_log done(2);
  const auto busy = open_stream();
  const auto queue = open_stream();
  const auto held = shut(*busy);
  EXPECT_ENQUEUED(done.ask(*busy));
  EXPECT_TRUE(held->await_entered()) << "the only worker is taken";
  queue->run_inline(true);
  launch(*queue);
  EXPECT_ENQUEUED(done.ask(*queue));
  EXPECT_EQ(done.order(), std::vector<std::size_t>{1});
}

TEST_F(host_inline, StandsBehindWhatTheWorkersHave) {
  completion_log done(2);
  const auto queue = open_stream();
  const auto held = shut(*queue);
  EXPECT_ENQUEUED(done.ask(*queue));
  EXPECT_TRUE(held->await_entered());
  queue->run_inline(true);
  launch(*queue);
  EXPECT_ENQUEUED(done.ask(*queue));
  EXPECT_EQ(done.count(), 0U);
  held->open();
  EXPECT_TRUE(done.await(2));
  EXPECT_EQ(done.order(), (std::vector<std::size_t>{0, 1}));
  EXPECT_NE(ran_by_, here(1));
}

TEST_F(host_inline, LeavesWhatHasToWaitToTheWorkers) {
  completion_log done(1);
  const auto other = open_stream();
  const auto queue = open_stream();
  const auto point = open_event();
  const auto held = shut(*other);
  EXPECT_ENQUEUED(other->record(*point));
  queue->run_inline(true);
  launch(*queue);
  EXPECT_ENQUEUED(queue->wait(*point));
  launch(*queue);
  EXPECT_ENQUEUED(done.ask(*queue));
  EXPECT_EQ(ran_by_, here(1)) << "what stands before the wait";
  EXPECT_EQ(done.count(), 0U);
  held->open();
  EXPECT_TRUE(done.await(1));
  ASSERT_EQ(ran_by_.size(), 2U);
  EXPECT_NE(ran_by_.back(), std::this_thread::get_id());
}

TEST_F(host_inline, HandsOverAgainWhatIsNotBrief) {
  completion_log done(2);
  const auto queue = open_stream();
  for (const bool brief : {true, false}) {
    queue->run_inline(brief);
    launch(*queue);
    EXPECT_ENQUEUED(done.ask(*queue));
    EXPECT_TRUE(done.await(1));
    EXPECT_EQ(ran_by_.back() == std::this_thread::get_id(), brief);
  }
}

TEST_F(host_inline, FindsNoWorkerThereAfterASynchronize) {
  constexpr std::size_t times = 2000;
  const auto queue = open_stream();
  const auto point = open_event();
  for (std::size_t each = 0; each < times; ++each) {
    queue->run_inline(false);
    launch(*queue);
    EXPECT_ENQUEUED(queue->synchronize());
    queue->run_inline(true);
    ran_by_.clear();
    launch(*queue);
    EXPECT_ENQUEUED(queue->record(*point));
    ASSERT_EQ(ran_by_, here(1)) << each;
  }
}

TEST_F(host_inline, TellsTheFaultOfTheWork) {
  completion_log done(1);
  const auto queue = open_stream();
  queue->run_inline(true);
  gives_ = {"HOST_TEST_FAULT"};
  launch(*queue);
  EXPECT_ENQUEUED(done.ask(*queue));
  EXPECT_EQ(done.statuses(), std::vector<std::string>{"HOST_TEST_FAULT"});
  EXPECT_STREQ(queue->record(*open_event()).name, "HOST_TEST_FAULT");
}

/// Streams that work, record and wait for one another, and what each wait promises. What the work leaves is not atomic:
/// if two threads ran one stream at once, or a wait did not order memory, ThreadSanitizer would see it.
class stream_graph {
 public:
  static constexpr std::size_t streams = 8;

  stream_graph(device& target, std::size_t most_work) {
    for (lane& each : lanes_) {
      each.queue = target.open_stream(static_cast<stream_priority>((&each - lanes_.data()) % 3));
      each.point = target.open_event(false);
      each.marks.resize(most_work);
    }
  }

  void work(std::size_t lane_number) {
    lane& mine = lanes_[lane_number];
    launch(mine, [this, &mine, number = mine.enqueued++] {
      expect(mine.done == number);
      mine.marks[number] = 1;
      ++mine.done;
    });
  }

  void run_inline(std::size_t lane_number, bool brief) { lanes_[lane_number].queue->run_inline(brief); }

  void record(std::size_t lane_number) {
    lane& mine = lanes_[lane_number];
    mine.recorded = mine.enqueued;
    EXPECT_ENQUEUED(mine.queue->record(*mine.point));
  }

  /// Waits, and then looks whether the other lane had done all that stands before its last record.
  void wait(std::size_t lane_number, std::size_t for_number) {
    lane& mine = lanes_[lane_number];
    lane& other = lanes_[for_number];
    EXPECT_ENQUEUED(mine.queue->wait(*other.point));
    launch(mine, [this, &other, least = other.recorded] { expect(least == 0 || other.marks[least - 1] == 1); });
  }

  void finish() {
    for (lane& each : lanes_) {
      EXPECT_ENQUEUED(each.queue->synchronize());
      EXPECT_EQ(each.done, each.enqueued);
    }
  }

  [[nodiscard]] int broken() const noexcept { return broken_.load(); }

 private:
  struct lane {
    std::unique_ptr<stream> queue;
    std::unique_ptr<event> point;
    std::size_t enqueued = 0;
    std::size_t recorded = 0;         // work before the last record
    std::size_t done = 0;             // by who does the work, for this lane's own alone
    std::vector<std::uint8_t> marks;  // one for each piece of work, left by who did it
  };

  void expect(bool kept) noexcept { broken_ += kept ? 0 : 1; }

  void launch(lane& mine, std::function<void()> task) {
    tasks_.push_back(std::make_unique<host_task>([run = std::move(task)] {
      run();
      return fault{};
    }));
    EXPECT_ENQUEUED(mine.queue->launch(*tasks_.back(), {}));
  }

  std::atomic<int> broken_ = 0;
  std::vector<std::unique_ptr<host_task>> tasks_;
  std::array<lane, streams> lanes_;  // last: its streams finish their tasks
};

TEST(host_graph, KeepsWhatEveryWaitPromises) {
  constexpr std::size_t rounds = 300;
  constexpr std::size_t steps = 40;
  const std::unique_ptr<device> target = open_host_device(3);
  stream_graph graph(*target, rounds * steps);
  std::mt19937 random(7);
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t lane = random() % stream_graph::streams;
      graph.run_inline(lane, random() % 4 == 0);
      switch (random() % 3) {
        case 0:
          graph.record(lane);
          break;
        case 1:
          graph.wait(lane, random() % stream_graph::streams);
          graph.record(lane);
          break;
        default:
          graph.work(lane);
      }
    }
    graph.finish();
  }
  EXPECT_EQ(graph.broken(), 0);
}

}  // namespace
}  // namespace penstock::testing
