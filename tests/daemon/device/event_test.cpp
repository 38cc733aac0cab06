#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/device/completion_log.hpp"
#include "tests/daemon/device/device_contract.hpp"

namespace penstock::testing {
namespace {

constexpr std::size_t word = sizeof(std::uint32_t);

/// A cell of device memory, and what is written to it and read from it.
class event_contract : public device_contract {
 protected:
  void SetUp() override {
    device_contract::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) {
      pinned_ = target().allocate_pinned(256 * word);
      cell_ = target().allocate(word);
    }
  }

  void write(stream& on, std::uint32_t value) {
    words(pinned_)[used_] = value;
    EXPECT_ENQUEUED(on.copy_in(cell_.get(), words(pinned_) + used_++, word));
  }
  /// Returns where the value will be.
  [[nodiscard]] const std::uint32_t* read(stream& on) {
    EXPECT_ENQUEUED(on.copy_out(words(pinned_) + used_, cell_.get(), word));
    return words(pinned_) + used_++;
  }

 private:
  device_memory pinned_;
  device_memory cell_;
  std::size_t used_ = 0;
};

TEST_P(event_contract, IsReachedBeforeItIsEverRecorded) {
  const auto never = open_event();
  const auto queue = open_stream();
  EXPECT_EQ(state_of(*never), event::state::reached);
  EXPECT_ENQUEUED(queue->wait(*never));
  make_a_round_trip(*queue);
}

TEST_P(event_contract, IsPendingUntilItsStreamComesToIt) {
  const auto queue = open_stream();
  const auto before = open_event();
  const auto after = open_event();
  EXPECT_ENQUEUED(queue->record(*before));
  const auto held = shut(*queue);
  EXPECT_ENQUEUED(queue->record(*after));
  EXPECT_TRUE(held->await_entered());
  EXPECT_EQ(state_of(*before), event::state::reached);
  EXPECT_EQ(state_of(*after), event::state::pending);
  held->open();
  EXPECT_ENQUEUED(queue->synchronize());
  EXPECT_EQ(state_of(*after), event::state::reached);
}

TEST_P(event_contract, HoldsWorkThatWaitsForIt) {
  completion_log log(2);
  const auto writer = open_stream();
  const auto reader = open_stream();
  const auto bystander = open_stream();
  const auto written = open_event();
  write(*bystander, 1);
  EXPECT_ENQUEUED(bystander->synchronize());
  const auto held = shut(*writer);
  write(*writer, 2);
  EXPECT_ENQUEUED(writer->record(*written));
  const std::uint32_t* const before = read(*reader);
  EXPECT_ENQUEUED(log.ask(*reader));
  EXPECT_ENQUEUED(reader->wait(*written));
  const std::uint32_t* const after = read(*reader);
  EXPECT_ENQUEUED(log.ask(*reader));
  EXPECT_TRUE(log.await(1));  // what stands before the wait is not held
  for (int round = 0; round < 10; ++round) {
    make_a_round_trip(*bystander);
  }
  EXPECT_EQ(*before, 1U);
  EXPECT_EQ(log.count(), 1U);
  held->open();
  EXPECT_TRUE(log.await(1));
  EXPECT_EQ(*after, 2U);
}

TEST_P(event_contract, HoldsAWaitToTheRecordThatWasLastWhenItWasAsked) {
  const auto first = open_stream();
  const auto second = open_stream();
  const auto reader = open_stream();
  const auto point = open_event();
  const auto held_first = shut(*first);
  const auto held_second = shut(*second);
  write(*first, 1);
  EXPECT_ENQUEUED(first->record(*point));
  EXPECT_ENQUEUED(reader->wait(*point));
  const std::uint32_t* const seen = read(*reader);
  EXPECT_ENQUEUED(second->record(*point));
  held_first->open();
  EXPECT_ENQUEUED(reader->synchronize());  // does not wait for the later record
  EXPECT_EQ(*seen, 1U);
  EXPECT_EQ(state_of(*point), event::state::pending);  // the later record's state
  held_second->open();
  EXPECT_ENQUEUED(second->synchronize());
  EXPECT_EQ(state_of(*point), event::state::reached);
}

TEST_P(event_contract, HoldsAWaitToARecordThatALaterOneOvertook) {
  const auto first = open_stream();
  const auto second = open_stream();
  const auto reader = open_stream();
  const auto point = open_event();
  const auto held = shut(*first);
  write(*first, 1);
  EXPECT_ENQUEUED(first->record(*point));
  EXPECT_ENQUEUED(reader->wait(*point));
  const std::uint32_t* const seen = read(*reader);
  EXPECT_ENQUEUED(second->record(*point));
  EXPECT_ENQUEUED(second->synchronize());
  EXPECT_EQ(state_of(*point), event::state::reached);
  held->open();
  EXPECT_ENQUEUED(reader->synchronize());
  EXPECT_EQ(*seen, 1U);
}

TEST_P(event_contract, PassesAlongAChainOfStreams) {
  constexpr std::size_t links = 8;
  std::vector<std::unique_ptr<stream>> streams;
  std::vector<std::unique_ptr<event>> events;
  for (std::size_t link = 0; link < links; ++link) {
    streams.push_back(open_stream());
    events.push_back(open_event());
  }
  const auto held = shut(*streams[0]);
  std::vector<const std::uint32_t*> seen;
  for (std::size_t link = 0; link < links; ++link) {
    if (link != 0) {
      EXPECT_ENQUEUED(streams[link]->wait(*events[link - 1]));
    }
    seen.push_back(read(*streams[link]));
    write(*streams[link], static_cast<std::uint32_t>(link + 1));
    EXPECT_ENQUEUED(streams[link]->record(*events[link]));
  }
  held->open();
  EXPECT_ENQUEUED(streams.back()->synchronize());
  for (std::size_t link = 0; link < links; ++link) {
    EXPECT_EQ(*seen[link], link);
  }
}

TEST_P(event_contract, JoinsBranchesThatForked) {
  const auto trunk = open_stream();
  const auto branch = open_stream();
  const auto forked = open_event();
  const auto joined = open_event();
  const auto held = shut(*trunk);
  write(*trunk, 5);
  EXPECT_ENQUEUED(trunk->record(*forked));
  EXPECT_ENQUEUED(branch->wait(*forked));
  const std::uint32_t* const in_branch = read(*branch);
  write(*branch, 6);
  EXPECT_ENQUEUED(branch->record(*joined));
  EXPECT_ENQUEUED(trunk->wait(*joined));
  const std::uint32_t* const after_join = read(*trunk);
  held->open();
  EXPECT_ENQUEUED(trunk->synchronize());
  EXPECT_EQ(*in_branch, 5U);
  EXPECT_EQ(*after_join, 6U);
}

TEST_P(event_contract, DoesNotHoldItsOwnStream) {
  const auto queue = open_stream();
  const auto point = open_event();
  EXPECT_ENQUEUED(queue->record(*point));
  EXPECT_ENQUEUED(queue->wait(*point));
  make_a_round_trip(*queue);
}

TEST_P(event_contract, OutlivesTheStreamThatItWasRecordedOn) {
  const auto point = open_event();
  {
    const auto gone = open_stream();
    write(*gone, 3);
    EXPECT_ENQUEUED(gone->record(*point));
  }
  const auto queue = open_stream();
  EXPECT_EQ(state_of(*point), event::state::reached);
  EXPECT_ENQUEUED(queue->wait(*point));
  const std::uint32_t* const seen = read(*queue);
  EXPECT_ENQUEUED(queue->synchronize());
  EXPECT_EQ(*seen, 3U);
}

TEST_P(event_contract, MayGoBeforeItIsReached) {
  const auto queue = open_stream();
  const auto waiting = open_stream();
  auto untimed = open_event();
  auto timed = target().open_event(true);
  const auto held = shut(*queue);
  write(*queue, 9);
  EXPECT_ENQUEUED(queue->record(*untimed));
  EXPECT_ENQUEUED(queue->record(*timed));
  EXPECT_ENQUEUED(waiting->wait(*untimed));
  EXPECT_ENQUEUED(waiting->wait(*timed));
  untimed.reset();
  timed.reset();
  const std::uint32_t* const seen = read(*waiting);
  held->open();
  EXPECT_ENQUEUED(waiting->synchronize());
  EXPECT_EQ(*seen, 9U);
}

TEST_P(event_contract, TellsTheTimeThatPassedBetweenTwo) {
  using clock = std::chrono::steady_clock;
  using microseconds = std::chrono::duration<double, std::micro>;
  const auto queue = open_stream();
  const auto other = open_stream();
  const auto start = target().open_event(true);
  const auto end = target().open_event(true);
  const auto outer_start = clock::now();
  EXPECT_ENQUEUED(queue->record(*start));
  const auto held = shut(*queue);
  EXPECT_ENQUEUED(queue->record(*end));
  EXPECT_TRUE(held->await_entered());
  const auto inner_start = clock::now();
  EXPECT_LT(end->elapsed_us(*start), 0.0);  // not reached yet
  for (int round = 0; round < 100; ++round) {
    make_a_round_trip(*other);
  }
  const auto inner_end = clock::now();
  held->open();
  EXPECT_ENQUEUED(queue->synchronize());
  const auto outer_end = clock::now();
  // The device's clock is not the processor's: they may differ by a little.
  EXPECT_GE(end->elapsed_us(*start), microseconds(inner_end - inner_start).count() * 0.99 - 5.0);
  EXPECT_LE(end->elapsed_us(*start), microseconds(outer_end - outer_start).count() * 1.01 + 5.0);
}

TEST_P(event_contract, TellsNoTimeThatWasNotTaken) {
  const auto queue = open_stream();
  const auto timed = target().open_event(true);
  const auto never = target().open_event(true);
  const auto untimed = open_event();
  EXPECT_ENQUEUED(queue->record(*timed));
  EXPECT_ENQUEUED(queue->record(*untimed));
  EXPECT_ENQUEUED(queue->synchronize());
  EXPECT_LT(untimed->elapsed_us(*timed), 0.0);
  EXPECT_LT(timed->elapsed_us(*untimed), 0.0);
  EXPECT_LT(timed->elapsed_us(*never), 0.0);
  make_a_round_trip(*queue);  // and the attempts left no error behind
}

INSTANTIATE_TEST_SUITE_P(backend, event_contract, ::testing::Values("host", "cuda"), name_of_backend);

}  // namespace
}  // namespace penstock::testing
