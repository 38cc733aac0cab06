#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/device/backend.hpp"
#include "daemon/device/host_queue.hpp"
#include "tests/daemon/device/completion_log.hpp"
#include "tests/daemon/device/device_contract.hpp"
#include "tests/daemon/device/host_gate.hpp"

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
  std::unique_ptr<hold> shut(stream& on) {
    gate& used = *used_.emplace_back(gates_->make());
    EXPECT_ENQUEUED(on.launch(used, {}));
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

}  // namespace
}  // namespace penstock::testing
