#include "daemon/live/block_assembler.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::live {
namespace {

using clock = std::chrono::steady_clock;

/// A sample is its own index and one, so that 0 is only what was filled in; −1 stands for NaN.
using sample = std::int64_t;

std::vector<sample> samples_at(std::int64_t index, std::size_t count) {
  std::vector<sample> made(count);
  for (std::size_t each = 0; each < count; ++each) {
    made[each] = index + static_cast<std::int64_t>(each) + 1;
  }
  return made;
}

/// A block with its samples, as it came out.
struct kept_block {
  std::vector<sample> samples;
  block_account account;
};

/// Keeps all blocks. It has no memory while `is_short`.
class kept_blocks final : public block_store {
 public:
  explicit kept_blocks(std::size_t bytes) : bytes_(bytes) {}

  std::byte* take() override {
    if (is_short && is_short()) {
      return nullptr;
    }
    memory_.push_back(std::make_unique<std::byte[]>(bytes_));
    return memory_.back().get();
  }
  void put(const sample_block& block) override {
    kept_block& kept = all.emplace_back();
    kept.samples.resize(block.samples);
    std::memcpy(kept.samples.data(), block.bytes, block.samples * sizeof(sample));
    kept.account = block.account;
  }
  void give_back(std::byte* /*memory*/) override {}

  std::function<bool()> is_short;
  std::vector<kept_block> all;

 private:
  std::size_t bytes_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

block_plan plan_with(std::size_t block, std::size_t frame, gap_policy policy, std::uint64_t max_fill,
                     gap_policy beyond = gap_policy::new_epoch) {
  block_plan plan;
  plan.sample_bytes = sizeof(sample);
  plan.block = block;
  plan.frame = frame;
  plan.gap = {.policy = policy, .max_fill = std::chrono::seconds{1}, .beyond = beyond, .discard = false};
  plan.max_fill = max_fill;
  if (policy == gap_policy::nan) {
    plan.missing.assign(sizeof(sample), std::byte{0xFF});
  }
  return plan;
}

struct assembler_rig {
  explicit assembler_rig(const block_plan& wanted) : plan(wanted), blocks(wanted.block_bytes()) {}

  void run(std::optional<std::int64_t> at, std::size_t count, std::int64_t value = -1) {
    const std::vector<sample> made = samples_at(value < 0 ? at.value_or(assembler.position()) : value, count);
    assembler.samples({.bytes = std::as_bytes(std::span(made)), .at = at}, now);
  }

  block_plan plan;
  kept_blocks blocks;
  sample_counts counts;
  source_events events;
  block_assembler assembler{0, plan, blocks, counts, events};
  clock::time_point now{};

  void settle() {
    assembler.flush();
    // What the queue does with a block that is handed over.
    for (const kept_block& each : blocks.all) {
      const std::size_t real = each.samples.size() - each.account.filled;
      counts.waiting -= real;
      counts.delivered += real;
    }
  }
};

/// The same by one sample after the other.
class reference {
 public:
  struct cell {
    std::uint32_t epoch = 0;
    std::int64_t index = 0;
    sample value = 0;
    std::uint64_t lost_before = 0;
  };

  explicit reference(const block_plan& plan) : plan_(plan) {}

  void run(std::optional<std::int64_t> at, std::size_t count, sample first_value) {
    const std::int64_t start =
        !begun_ || anew_ ? at.value_or(0) : at.value_or(position_ + said_network_ + said_kernel_);
    if (!begun_ || anew_) {
      counts.network += static_cast<std::uint64_t>(said_network_);
      counts.kernel += static_cast<std::uint64_t>(said_kernel_);
      lost_ += static_cast<std::uint64_t>(said_network_ + said_kernel_);
      said_network_ = said_kernel_ = 0;
      epoch_ += begun_ ? 1 : 0;
      begun_ = true;
      anew_ = false;
      missing_.clear();
      position_ = start;
    }
    for (std::size_t each = 0; each < count; ++each) {
      one(start + static_cast<std::int64_t>(each), first_value + static_cast<sample>(each), at.has_value());
    }
  }
  void say(loss_kind kind, std::int64_t samples) {
    (kind == loss_kind::kernel ? said_kernel_ : said_network_) += samples;
  }
  void epoch() { anew_ = true; }

  /// What `cells` are as blocks.
  [[nodiscard]] std::vector<kept_block> blocks() const {
    std::vector<kept_block> made;
    for (std::size_t each = 0; each < cells.size(); ++each) {
      const cell& now = cells[each];
      const bool begins = each == 0 || cells[each - 1].epoch != now.epoch;
      if (begins || made.back().samples.size() == plan_.block) {
        if (begins && !made.empty()) {
          pad(made.back());
        }
        kept_block& fresh = made.emplace_back();
        fresh.account.index = now.index;
        fresh.account.epoch = now.epoch;
        fresh.account.flags = begins ? wire::sample_flag::epoch_begins : 0;
      }
      made.back().samples.push_back(now.value);
      made.back().account.filled += now.value == missing() ? 1U : 0U;
      made.back().account.lost_before += now.lost_before;
    }
    if (!made.empty()) {
      pad(made.back());
    }
    return made;
  }

  [[nodiscard]] std::int64_t position() const noexcept { return position_; }

  sample_counts counts;  // without expected, delivered, waiting
  std::uint64_t duplicates = 0;
  std::vector<cell> cells;

 private:
  void one(std::int64_t index, sample value, bool placed) {
    if (index < position_) {
      const auto found = missing_.find(index);
      if (found == missing_.end()) {
        ++duplicates;
      } else {
        ++counts.late;
        --(found->second == loss_kind::kernel ? counts.kernel : counts.network);
        missing_.erase(found);
      }
      return;
    }
    const std::int64_t gap = index - position_;
    // The kernel's come last in it, so that what is late counts against the network first.
    const std::int64_t kernel = std::min(gap, said_kernel_);
    for (std::int64_t each = 0; each < gap; ++each) {
      const loss_kind kind = each < gap - kernel ? loss_kind::network : loss_kind::kernel;
      ++(kind == loss_kind::kernel ? counts.kernel : counts.network);
      if (placed) {
        missing_[position_ + each] = kind;
      }
    }
    if (gap > 0) {
      said_kernel_ -= kernel;
      said_network_ = 0;
      treat(gap);
    }
    cells.push_back({epoch_, index, value, std::exchange(lost_, 0)});
    position_ = index + 1;
  }
  void treat(std::int64_t gap) {
    gap_policy policy = plan_.gap.policy;
    if (fills(policy) && static_cast<std::uint64_t>(gap) > plan_.max_fill) {
      policy = plan_.gap.beyond;
    }
    if (fills(policy)) {
      for (std::int64_t each = 0; each < gap; ++each) {
        cells.push_back({epoch_, position_ + each, missing(), std::exchange(lost_, 0)});
      }
      return;
    }
    lost_ += static_cast<std::uint64_t>(gap);
    epoch_ += policy == gap_policy::new_epoch ? 1 : 0;
  }
  [[nodiscard]] sample missing() const { return plan_.gap.policy == gap_policy::nan ? -1 : 0; }
  void pad(kept_block& block) const {
    while (plan_.frame != 0 && block.samples.size() % plan_.frame != 0) {
      block.samples.push_back(missing());
      ++block.account.filled;
    }
  }

  const block_plan& plan_;
  bool begun_ = false;
  bool anew_ = false;
  std::int64_t position_ = 0;
  std::uint32_t epoch_ = 0;
  std::uint64_t lost_ = 0;
  std::int64_t said_network_ = 0;
  std::int64_t said_kernel_ = 0;
  std::map<std::int64_t, loss_kind> missing_;
};

void expect_same(const std::vector<kept_block>& found, const std::vector<kept_block>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t each = 0; each < found.size(); ++each) {
    SCOPED_TRACE("block " + std::to_string(each));
    EXPECT_EQ(found[each].samples, wanted[each].samples);
    EXPECT_EQ(found[each].account.index, wanted[each].account.index);
    EXPECT_EQ(found[each].account.epoch, wanted[each].account.epoch);
    EXPECT_EQ(found[each].account.filled, wanted[each].account.filled);
    EXPECT_EQ(found[each].account.lost_before, wanted[each].account.lost_before);
    EXPECT_EQ(found[each].account.flags & wire::sample_flag::epoch_begins, wanted[each].account.flags);
    EXPECT_EQ((found[each].account.flags & wire::sample_flag::filled) != 0, wanted[each].account.filled != 0);
  }
}

TEST(block_assembler, MakesTheBlocksAndTheAccountOfAModelThatGoesSampleBySample) {
  std::mt19937_64 random(20261127);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto frame = static_cast<std::size_t>(pick(0, 2) == 0 ? 0 : pick(1, 6));
    const auto block = static_cast<std::size_t>(pick(1, 8)) * std::max<std::size_t>(frame, 1);
    const auto policy = static_cast<gap_policy>(pick(0, 3));
    assembler_rig rig(plan_with(block, frame, policy, static_cast<std::uint64_t>(pick(0, 30)),
                                pick(0, 1) == 0 ? gap_policy::new_epoch : gap_policy::splice));
    reference model(rig.plan);
    std::int64_t next = pick(-50, 50);
    // With kernel losses nothing is late: which of a gap's samples they were nobody knows.
    const bool with_kernel = pick(0, 1) == 0;
    for (int step = 0; step < 60; ++step) {
      const auto count = static_cast<std::size_t>(pick(1, 20));
      std::optional<std::int64_t> at = next;
      switch (pick(0, 9)) {
        case 0:  // a gap
          next += pick(1, 40);
          at = next;
          if (with_kernel) {
            const std::int64_t kernel = pick(0, 50);
            rig.assembler.loss(loss_kind::kernel, static_cast<std::uint64_t>(kernel));
            model.say(loss_kind::kernel, kernel);
          }
          break;
        case 1:  // late, a duplicate, or both, perhaps with something new behind it
          if (!with_kernel) {
            at = next - pick(1, 60);
          }
          break;
        case 2:  // another clock
          rig.assembler.epoch();
          model.epoch();
          next = pick(-1000, 1000);
          at = next;
          break;
        case 3:  // a gap without a place
          at.reset();
          if (!with_kernel) {
            const std::int64_t lost = pick(0, 30);
            rig.assembler.loss(loss_kind::network, static_cast<std::uint64_t>(lost));
            model.say(loss_kind::network, lost);
            next += step == 0 ? 0 : lost;
          }
          next = step == 0 ? 0 : next;
          if (with_kernel) {
            at = next;
          }
          break;
        default:
          break;
      }
      const sample value = at.value_or(next) + 100'000;  // never 0
      std::vector<sample> made(count);
      for (std::size_t each = 0; each < count; ++each) {
        made[each] = value + static_cast<sample>(each);
      }
      rig.assembler.samples({.bytes = std::as_bytes(std::span(made)), .at = at}, rig.now);
      model.run(at, count, value);
      next = model.position();
      ASSERT_TRUE(rig.counts.balanced()) << "step " << step;
      ASSERT_EQ(rig.assembler.position(), next);
    }
    rig.settle();
    expect_same(rig.blocks.all, model.blocks());
    EXPECT_TRUE(rig.counts.balanced());
    EXPECT_EQ(rig.counts.waiting, 0U);
    EXPECT_EQ(rig.counts.network, model.counts.network);
    EXPECT_EQ(rig.counts.kernel, model.counts.kernel);
    EXPECT_EQ(rig.counts.late, model.counts.late);
    EXPECT_EQ(rig.events.duplicates, model.duplicates);
    if (HasFailure()) {
      return;
    }
  }
}

TEST(block_assembler, StandsEachSampleAtItsPlaceWhateverMemoryThereIs) {
  std::mt19937_64 random(7);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    assembler_rig rig(plan_with(static_cast<std::size_t>(pick(1, 40)), 0, static_cast<gap_policy>(pick(0, 3)),
                                static_cast<std::uint64_t>(pick(0, 60))));
    rig.blocks.is_short = [&] { return pick(0, 3) == 0; };
    std::int64_t next = 0;
    std::uint64_t sent = 0;
    for (int step = 0; step < 100; ++step) {
      next += pick(0, 3) == 0 ? pick(1, 50) : 0;
      const auto count = static_cast<std::size_t>(pick(1, 60));
      rig.run(next, count);
      next += static_cast<std::int64_t>(count);
      sent += count;
      ASSERT_TRUE(rig.counts.balanced());
    }
    rig.settle();
    EXPECT_TRUE(rig.counts.balanced());
    EXPECT_EQ(rig.counts.delivered + rig.counts.overrun, sent);
    std::uint64_t real = 0;
    for (std::size_t each = 0; each < rig.blocks.all.size(); ++each) {
      const kept_block& block = rig.blocks.all[each];
      std::uint32_t filled = 0;
      for (std::size_t place = 0; place < block.samples.size(); ++place) {
        const sample value = block.samples[place];
        const bool missing = value == (rig.plan.gap.policy == gap_policy::nan ? -1 : 0);
        filled += missing ? 1 : 0;
        const bool spliced = rig.plan.gap.policy == gap_policy::splice;
        if (!missing && !spliced) {
          ASSERT_EQ(value, block.account.index + static_cast<std::int64_t>(place) + 1);
        }
      }
      EXPECT_EQ(filled, block.account.filled);
      real += block.samples.size() - filled;
      if (each > 0 && rig.plan.gap.policy != gap_policy::splice) {
        const kept_block& before = rig.blocks.all[each - 1];
        const std::int64_t end = before.account.index + static_cast<std::int64_t>(before.samples.size());
        const bool begins = block.account.epoch != before.account.epoch;
        EXPECT_EQ(begins, (block.account.flags & wire::sample_flag::epoch_begins) != 0);
        EXPECT_EQ(block.account.index, end + (begins ? static_cast<std::int64_t>(block.account.lost_before) : 0));
      }
    }
    EXPECT_EQ(real, rig.counts.delivered);
  }
}

TEST(block_assembler, WritesWhereARunAlreadyLies) {
  assembler_rig rig(plan_with(8, 0, gap_policy::fill, 100));
  EXPECT_TRUE(rig.assembler.room().empty()) << "nothing says where the first sample stands";
  rig.run(100, 3);
  const std::span<std::byte> room = rig.assembler.room();
  ASSERT_EQ(room.size(), 5 * sizeof(sample));
  const std::vector<sample> made = samples_at(103, 5);
  std::memcpy(room.data(), made.data(), room.size());
  rig.assembler.samples({.bytes = room, .at = 103}, rig.now);
  ASSERT_EQ(rig.blocks.all.size(), 1U);
  EXPECT_EQ(rig.blocks.all[0].samples, samples_at(100, 8));
  // Room that is not used does not hold the next block at its place.
  ASSERT_FALSE(rig.assembler.room().empty());
  rig.assembler.epoch();
  rig.run(1000, 8);
  ASSERT_EQ(rig.blocks.all.size(), 2U);
  EXPECT_EQ(rig.blocks.all[1].account.index, 1000);
  EXPECT_EQ(rig.blocks.all[1].account.epoch, 1U);
}

TEST(block_assembler, TakesAnIndexThatFellFarForAnotherClock) {
  assembler_rig rig(plan_with(8, 0, gap_policy::fill, 100));
  rig.run(1'000'000, 8);
  rig.run(0, 8);
  rig.run((std::int64_t{1} << 50), 8);
  rig.run(std::int64_t{1} << 62, 8, 5);  // no index at all
  rig.settle();
  EXPECT_EQ(rig.events.epochs, 2U);
  EXPECT_EQ(rig.events.suspected, 1U);
  EXPECT_EQ(rig.counts.network, 0U);
  EXPECT_EQ(rig.counts.delivered, 32U);
  EXPECT_TRUE(rig.counts.balanced());
}

TEST(block_assembler, SaysTheTimeOfEachBlock) {
  block_plan plan = plan_with(10, 0, gap_policy::fill, 100);
  plan.rate = 1000;
  assembler_rig rig(plan);
  const auto send = [&](std::int64_t at, std::size_t count, std::int64_t time, time_quality quality) {
    const std::vector<sample> made = samples_at(at, count);
    rig.assembler.samples({.bytes = std::as_bytes(std::span(made)), .at = at, .time_ns = time, .quality = quality},
                          rig.now);
  };
  send(0, 15, 5'000'000'000, time_quality::source);
  send(15, 15, 0, time_quality::none);
  send(30, 10, 7'000'000'000, time_quality::arrival);
  send(40, 10, 0, time_quality::none);
  ASSERT_EQ(rig.blocks.all.size(), 5U);
  EXPECT_EQ(rig.blocks.all[0].account.time_ns, 5'000'000'000);
  EXPECT_EQ(rig.blocks.all[1].account.time_ns, 5'010'000'000);
  EXPECT_EQ(rig.blocks.all[1].account.quality, time_quality::source);
  EXPECT_EQ(rig.blocks.all[3].account.quality, time_quality::arrival);
  EXPECT_EQ(rig.blocks.all[4].account.time_ns, 7'010'000'000);
  EXPECT_EQ(rig.blocks.all[4].account.quality, time_quality::estimated);
}

TEST(block_assembler, SuspectsALossOfAStreamWithoutIndicesByItsRate) {
  block_plan plan = plan_with(1000, 0, gap_policy::fill, 100);
  plan.rate = 10'000;
  assembler_rig rig(plan);
  const auto send_for = [&](int runs) {
    for (int each = 0; each < runs; ++each) {
      rig.now += std::chrono::milliseconds{10};
      rig.run(std::nullopt, 100, 1);
    }
  };
  send_for(500);
  EXPECT_EQ(rig.events.suspected, 0U);
  rig.now += std::chrono::milliseconds{200};  // 2000 samples that never came
  send_for(500);
  EXPECT_EQ(rig.events.suspected, 1U);
  EXPECT_EQ(rig.counts.network, 0U) << "nobody knows how many";
}

TEST(block_assembler, SaysWhichBlockHasSamplesThatWerePutInOrder) {
  assembler_rig rig(plan_with(4, 0, gap_policy::fill, 16));
  const std::vector<sample> made = samples_at(0, 2);
  for (const bool restored : {false, false, true, false}) {
    rig.assembler.samples({.bytes = std::as_bytes(std::span(made)), .restored = restored}, rig.now);
  }
  ASSERT_EQ(rig.blocks.all.size(), 2U);
  EXPECT_EQ(rig.blocks.all[0].account.flags & wire::sample_flag::restored, 0);
  EXPECT_EQ(rig.blocks.all[1].account.flags & wire::sample_flag::restored, wire::sample_flag::restored);
  EXPECT_EQ(rig.events.restored, 2U);
}

TEST(block_assembler, WithholdsWhatTouchesFilledSamples) {
  block_plan plan = plan_with(10, 0, gap_policy::fill, 100);
  plan.gap.discard = true;
  assembler_rig rig(plan);
  rig.run(0, 15);
  rig.run(17, 13);
  ASSERT_EQ(rig.blocks.all.size(), 3U);
  EXPECT_FALSE(rig.blocks.all[0].account.flags & wire::sample_flag::withheld);
  EXPECT_TRUE(rig.blocks.all[1].account.flags & wire::sample_flag::withheld);
  EXPECT_FALSE(rig.blocks.all[2].account.flags & wire::sample_flag::withheld);
}

}  // namespace
}  // namespace penstock::live
