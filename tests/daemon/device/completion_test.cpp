#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/device/completion_log.hpp"
#include "tests/daemon/device/device_contract.hpp"

namespace penstock::testing {
namespace {

using ::testing::Each;

using completion_contract = device_contract;

TEST_P(completion_contract, RunsOnceEverythingBeforeItIsDone) {
  constexpr std::size_t bytes = std::size_t{8} << 20U;
  const device_memory sent = target().allocate_pinned(bytes);
  const device_memory received = target().allocate_pinned(bytes);
  const device_memory memory = target().allocate(bytes);
  std::iota(words(sent), words(sent) + bytes / 4, 1U);
  completion_log log(1);
  const auto queue = open_stream();
  const auto other = open_stream();
  const auto held = shut(*queue);
  EXPECT_ENQUEUED(queue->copy_in(memory.get(), sent.get(), bytes));
  EXPECT_ENQUEUED(queue->copy_out(received.get(), memory.get(), bytes));
  EXPECT_ENQUEUED(log.ask(*queue));
  make_a_round_trip(*other);
  EXPECT_EQ(log.count(), 0U);
  held->open();
  EXPECT_TRUE(log.await(1));
  EXPECT_EQ(words(received)[bytes / 4 - 1], bytes / 4);
  EXPECT_THAT(log.statuses(), Each(std::string()));
}

TEST_P(completion_contract, RunInTheOrderOfTheirStream) {
  constexpr std::size_t count = 200;
  completion_log log(count);
  const auto queue = open_stream();
  {
    const auto held = shut(*queue);
    for (std::size_t number = 0; number < count; ++number) {
      EXPECT_ENQUEUED(log.ask(*queue));
    }
  }
  EXPECT_TRUE(log.await(count));
  EXPECT_ENQUEUED(queue->synchronize());
  std::vector<std::size_t> expected(count);
  std::iota(expected.begin(), expected.end(), std::size_t{0});
  EXPECT_EQ(log.order(), expected);
}

TEST_P(completion_contract, HaveAllRunWhenTheStreamIsSynchronized) {
  completion_log log(300);
  const auto queue = open_stream();
  for (int round = 0; round < 100; ++round) {
    EXPECT_ENQUEUED(log.ask(*queue));
    EXPECT_ENQUEUED(log.ask(*queue));
    EXPECT_ENQUEUED(log.ask(*queue));
    EXPECT_ENQUEUED(queue->synchronize());
    EXPECT_EQ(log.count(), static_cast<std::size_t>(3 * round + 3));
  }
}

TEST_P(completion_contract, HaveAllRunWhenTheStreamIsGone) {
  constexpr std::size_t bytes = std::size_t{8} << 20U;
  const device_memory pinned = target().allocate_pinned(2 * bytes);
  const device_memory memory = target().allocate(bytes);
  std::iota(words(pinned), words(pinned) + bytes / 4, 1U);
  completion_log log(3);
  auto queue = open_stream();
  const auto held = shut(*queue);
  for (std::size_t number = 0; number < 3; ++number) {
    EXPECT_ENQUEUED(queue->copy_in(memory.get(), pinned.get(), bytes));
    EXPECT_ENQUEUED(queue->copy_out(pinned.get() + bytes, memory.get(), bytes));
    EXPECT_ENQUEUED(log.ask(*queue));
  }
  std::thread opener([&] {
    EXPECT_TRUE(held->await_entered());
    held->open();
  });
  queue.reset();
  EXPECT_EQ(log.count(), 3U);
  EXPECT_EQ(words(pinned)[2 * bytes / 4 - 1], bytes / 4);
  opener.join();
}

/// The life of a shard: batches rotate over streams, a few on each, and every one must come back once, and right.
class rotation {
 public:
  static constexpr std::size_t streams = 8;
  static constexpr std::uint32_t slots = 16;  // two batches a stream
  static constexpr std::size_t batch_words = 64;

  explicit rotation(device& on) {
    for (auto& each : streams_) {
      each = on.open_stream(stream_priority::normal);
    }
    for (slot& each : slots_) {
      each.pinned = on.allocate_pinned(2 * batch_words * sizeof(std::uint32_t));
      each.memory = on.allocate(batch_words * sizeof(std::uint32_t));
    }
  }

  void launch(std::uint32_t batch) {
    slot& used = slots_[batch % slots];
    stream& on = *streams_[batch % streams];
    const std::size_t bytes = batch_words * sizeof(std::uint32_t);
    used.log = std::make_unique<completion_log>(1);
    std::iota(words(used.pinned), words(used.pinned) + batch_words, batch * 3);
    EXPECT_ENQUEUED(on.copy_in(used.memory.get(), used.pinned.get(), bytes));
    EXPECT_ENQUEUED(on.copy_out(used.pinned.get() + bytes, used.memory.get(), bytes));
    EXPECT_ENQUEUED(used.log->ask(on));
  }

  void finish(std::uint32_t batch) {
    slot& used = slots_[batch % slots];
    ASSERT_TRUE(used.log->await(1));
    EXPECT_THAT(used.log->statuses(), Each(std::string()));
    for (std::uint32_t at = 0; at < batch_words; ++at) {
      ASSERT_EQ(words(used.pinned)[batch_words + at], batch * 3 + at) << "batch " << batch;
    }
    completions_ += used.log->count();
    retired_.push_back(std::move(used.log));  // kept: a second run would still be counted
  }

  /// Completions of all batches that have finished, counted again now.
  [[nodiscard]] std::size_t completions() const {
    std::size_t count = 0;
    for (const auto& each : retired_) {
      count += each->count();
    }
    return count == completions_ ? count : 0;
  }

 private:
  struct slot {
    device_memory pinned;
    device_memory memory;
    std::unique_ptr<completion_log> log;
  };

  std::vector<std::unique_ptr<completion_log>> retired_;
  std::array<slot, slots> slots_;
  std::array<std::unique_ptr<stream>, streams> streams_;
  std::size_t completions_ = 0;
};

TEST_P(completion_contract, ComeOnceForEachOfTenThousandBatches) {
  constexpr std::uint32_t batches = 10'000;
  rotation stream_pool(target());
  for (std::uint32_t batch = 0; batch < batches + rotation::slots; ++batch) {
    if (batch >= rotation::slots) {
      ASSERT_NO_FATAL_FAILURE(stream_pool.finish(batch - rotation::slots));
    }
    if (batch < batches) {
      stream_pool.launch(batch);
    }
  }
  EXPECT_EQ(stream_pool.completions(), batches);
}

INSTANTIATE_TEST_SUITE_P(backend, completion_contract, ::testing::Values("host", "cuda"), name_of_backend);

}  // namespace
}  // namespace penstock::testing
