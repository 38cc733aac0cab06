#include "daemon/live/block_queue.hpp"

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/live/block_assembler.hpp"

namespace penstock::live {
namespace {

using sample = std::int64_t;

struct queue_rig {
  queue_rig(overrun_policy overrun, gap_policy policy, std::uint64_t max_fill, std::size_t blocks = 4) {
    plan.sample_bytes = sizeof(sample);
    plan.block = 10;
    plan.overrun = overrun;
    plan.queue = blocks * plan.block_bytes();
    plan.gap.policy = policy;
    plan.max_fill = max_fill;
    pool = std::make_shared<block_pool>(plan.block_bytes());
    queue = std::make_unique<block_queue>(plan, pool, counts, events, [this] {
      ++waits;
      return wait ? wait() : false;
    });
    assembler = std::make_unique<block_assembler>(0, plan, *queue, counts, events);
  }

  void run(std::int64_t at, std::size_t count) {
    std::vector<sample> made(count);
    for (std::size_t each = 0; each < count; ++each) {
      made[each] = at + static_cast<sample>(each) + 1;
    }
    assembler->samples({.bytes = std::as_bytes(std::span(made)), .at = at}, {});
  }
  /// Hands the front over, and back.
  std::optional<sample_block> deliver() {
    const sample_block* const front = queue->front();
    if (front == nullptr) {
      return std::nullopt;
    }
    const sample_block block = *front;
    values.assign(block.samples, 0);
    std::memcpy(values.data(), block.bytes, block.samples * sizeof(sample));
    queue->pop_delivered();
    pool->return_from_afar(block.bytes);
    return block;
  }

  block_plan plan;
  sample_counts counts;
  source_events events;
  std::shared_ptr<block_pool> pool;
  std::unique_ptr<block_queue> queue;
  std::unique_ptr<block_assembler> assembler;
  std::function<bool()> wait;
  int waits = 0;
  std::vector<sample> values;  // of the last that was delivered
};

TEST(block_queue, WithholdsWhatItFillsWhereThatIsToBeDiscarded) {
  queue_rig rig(overrun_policy::drop_oldest, gap_policy::fill, 1000);
  rig.plan.gap.discard = true;
  rig.run(0, 10);
  ASSERT_TRUE(rig.deliver());
  rig.run(10, 80);
  while (const auto block = rig.deliver()) {
    EXPECT_EQ((block->account.flags & wire::sample_flag::withheld) != 0, block->account.filled != 0);
  }
}

TEST(block_queue, FillsWhatTheOldestBlocksWereThatItDropped) {
  queue_rig rig(overrun_policy::drop_oldest, gap_policy::fill, 1000);
  rig.run(0, 10);
  ASSERT_TRUE(rig.deliver());
  rig.run(10, 80);  // 8 blocks; 5 may be in use
  EXPECT_EQ(rig.counts.overrun, 30U);
  EXPECT_TRUE(rig.counts.balanced());
  std::int64_t next = 10;
  while (const auto block = rig.deliver()) {
    EXPECT_EQ(block->account.index, next);
    EXPECT_EQ(block->account.epoch, 0U);
    for (std::size_t each = 0; each < block->samples; ++each) {
      const std::int64_t index = next + static_cast<std::int64_t>(each);
      EXPECT_EQ(rig.values[each], index < 40 ? 0 : index + 1);
    }
    next += static_cast<std::int64_t>(block->samples);
  }
  EXPECT_EQ(next, 90);
  EXPECT_EQ(rig.events.filled, 30U);
  EXPECT_EQ(rig.counts.delivered, 60U);
  EXPECT_TRUE(rig.counts.balanced());
}

TEST(block_queue, BeginsAnEpochBehindMoreThanMayBeFilled) {
  queue_rig rig(overrun_policy::drop_oldest, gap_policy::fill, 20);
  rig.run(0, 10);
  ASSERT_TRUE(rig.deliver());
  rig.run(10, 80);
  const auto block = rig.deliver();
  ASSERT_TRUE(block);
  EXPECT_EQ(block->account.index, 40);
  EXPECT_EQ(block->account.lost_before, 30U);
  EXPECT_EQ(block->account.epoch, 1U);
  EXPECT_NE(block->account.flags & wire::sample_flag::epoch_begins, 0);
  const auto behind = rig.deliver();
  ASSERT_TRUE(behind);
  EXPECT_EQ(behind->account.epoch, 1U);
  EXPECT_EQ(behind->account.flags & wire::sample_flag::epoch_begins, 0);
  EXPECT_EQ(rig.events.epochs, 1U);
}

TEST(block_queue, SplicesWhereThePolicySaysSo) {
  queue_rig rig(overrun_policy::drop_oldest, gap_policy::splice, 0);
  rig.run(0, 10);
  ASSERT_TRUE(rig.deliver());
  rig.run(10, 80);
  const auto block = rig.deliver();
  ASSERT_TRUE(block);
  EXPECT_EQ(block->account.lost_before, 30U);
  EXPECT_EQ(block->account.epoch, 0U);
}

TEST(block_queue, DropsTheNewestOrWaitsInstead) {
  queue_rig newest(overrun_policy::drop_newest, gap_policy::new_epoch, 0);
  newest.run(0, 80);
  EXPECT_EQ(newest.counts.overrun, 30U);
  EXPECT_EQ(newest.deliver()->account.index, 0);
  queue_rig waiting(overrun_policy::block, gap_policy::fill, 1000);
  waiting.wait = [&] { return waiting.deliver().has_value(); };
  waiting.run(0, 800);
  EXPECT_GT(waiting.waits, 0);
  EXPECT_EQ(waiting.counts.overrun, 0U);
  EXPECT_EQ(waiting.counts.delivered + waiting.counts.waiting, 800U);
}

TEST(block_queue, FillsWhatItDroppedAsThePlanSays) {
  queue_rig rig(overrun_policy::drop_oldest, gap_policy::nan, 1000);
  rig.plan.missing.assign(sizeof(sample), std::byte{0xFF});
  rig.run(0, 10);
  ASSERT_TRUE(rig.deliver());
  rig.run(10, 80);
  std::size_t filled = 0;
  while (const auto block = rig.deliver()) {
    for (std::size_t each = 0; each < block->samples; ++each) {
      const bool missing = rig.values[each] == -1;
      filled += missing ? 1 : 0;
      EXPECT_TRUE(missing || rig.values[each] == block->account.index + static_cast<std::int64_t>(each) + 1);
    }
  }
  EXPECT_EQ(filled, rig.events.filled);
  EXPECT_GT(filled, 0U);
}

TEST(block_queue, BalancesWhateverItDrops) {
  std::mt19937_64 random(11);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto policy = static_cast<gap_policy>(pick(0, 2));
    queue_rig rig(static_cast<overrun_policy>(pick(1, 2)), policy, static_cast<std::uint64_t>(pick(0, 100)),
                  static_cast<std::size_t>(pick(4, 8)));
    std::int64_t next = 0;
    std::optional<std::int64_t> expected_index;
    std::uint32_t epoch = 0;
    const auto check = [&](const sample_block& block) {
      const bool begins = block.account.epoch != epoch;
      EXPECT_TRUE(!begins || (block.account.flags & wire::sample_flag::epoch_begins) != 0);
      if (policy != gap_policy::splice) {
        EXPECT_EQ(block.account.index,
                  expected_index ? *expected_index + (begins ? static_cast<std::int64_t>(block.account.lost_before) : 0)
                                 : block.account.index);
        for (std::size_t each = 0; each < block.samples; ++each) {
          EXPECT_TRUE(rig.values[each] == 0 ||
                      rig.values[each] == block.account.index + static_cast<std::int64_t>(each) + 1);
        }
      }
      epoch = block.account.epoch;
      expected_index = block.account.index + static_cast<std::int64_t>(block.samples);
    };
    for (int step = 0; step < 200; ++step) {
      if (pick(0, 2) != 0) {
        next += pick(0, 5) == 0 ? pick(1, 120) : 0;
        const auto count = static_cast<std::size_t>(pick(1, 35));
        rig.run(next, count);
        next += static_cast<std::int64_t>(count);
      } else if (const auto block = rig.deliver()) {
        check(*block);
      }
      ASSERT_TRUE(rig.counts.balanced());
    }
    rig.assembler->flush();
    while (const auto block = rig.deliver()) {
      check(*block);
    }
    EXPECT_EQ(rig.counts.waiting, 0U);
    EXPECT_TRUE(rig.counts.balanced());
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

TEST(block_queue, BeginsAnEpochThatItIsToldOf) {
  queue_rig rig(overrun_policy::drop_oldest, gap_policy::fill, 1000);
  rig.run(0, 30);
  ASSERT_TRUE(rig.deliver());
  ASSERT_NE(rig.queue->front(), nullptr);
  rig.queue->begin_epoch();
  rig.queue->begin_epoch();  // nothing of it was handed over
  EXPECT_EQ(rig.deliver()->account.epoch, 1U);
  EXPECT_EQ(rig.deliver()->account.epoch, 1U);
}

TEST(block_pool, TakesBackFromAnyThread) {
  block_pool pool(64);
  std::vector<std::byte*> taken;
  for (int each = 0; each < 8; ++each) {
    taken.push_back(pool.take(8));
    ASSERT_NE(taken.back(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken.back()) % 64, 0U);
  }
  EXPECT_EQ(pool.take(8), nullptr);
  std::vector<std::thread> threads;
  for (std::byte* const each : taken) {
    threads.emplace_back([&pool, each] { pool.return_from_afar(each); });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  for (int each = 0; each < 8; ++each) {
    EXPECT_NE(pool.take(8), nullptr);
  }
  EXPECT_EQ(pool.take(8), nullptr);
}

}  // namespace
}  // namespace penstock::live
