#include "daemon/batch/slot_ring.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "tests/support/manual_device.hpp"

namespace penstock {
namespace {

constexpr slot_size size{1000, 2000, 3000, 8, 2, 3};

class SlotRing : public ::testing::Test {
 protected:
  std::vector<slot*> claim_all() {
    std::vector<slot*> all;
    while (slot* const taken = ring_.claim()) {
      all.push_back(taken);
    }
    return all;
  }

  testing::manual_device device_;
  wake_event signal_;
  completion_queue completed_{signal_};
  slot_ring ring_{device_, 4, size, false, completed_, signal_};
};

TEST_F(SlotRing, GivesEverySlotOnceAndThenNone) {
  const std::vector<slot*> all = claim_all();
  EXPECT_EQ((std::set<slot*>(all.begin(), all.end()).size()), 4U);
  EXPECT_EQ(ring_.free(), 0U);
  EXPECT_EQ(ring_.claim(), nullptr);
  for (slot* each : all) {
    slot_ring::drop(*each);
  }
}

TEST_F(SlotRing, RefusesClaimUntilADroppedSlotIsCollected) {
  const std::vector<slot*> all = claim_all();
  slot_ring::drop(*all[2]);
  EXPECT_TRUE(ring_.has_returned());
  EXPECT_EQ(ring_.claim(), nullptr);
  EXPECT_TRUE(ring_.collect());
  EXPECT_FALSE(ring_.has_returned());
  EXPECT_FALSE(ring_.collect());
  EXPECT_EQ(ring_.claim(), all[2]);
  EXPECT_EQ(ring_.claim(), nullptr);
}

TEST_F(SlotRing, KeepsASlotUntilItsLastReferenceIsDropped) {
  slot* const held = ring_.claim();
  held->references.fetch_add(2);
  slot_ring::drop(*held);
  slot_ring::drop(*held);
  EXPECT_FALSE(ring_.collect());
  slot_ring::drop(*held);
  EXPECT_TRUE(ring_.collect());
  EXPECT_EQ(ring_.free(), 4U);
}

TEST_F(SlotRing, WakesTheShardWhenASlotComesBack) {
  slot* const held = ring_.claim();
  signal_.prepare();
  ASSERT_FALSE(ring_.has_returned());
  std::thread([held] { slot_ring::drop(*held); }).join();
  pollfd descriptor{signal_.descriptor(), POLLIN, 0};
  EXPECT_EQ(::poll(&descriptor, 1, 0), 1);
}

TEST_F(SlotRing, GivesSlotsWithoutTheLastBatch) {
  slot* const first = ring_.claim();
  request some;
  first->work.requests.push_back(&some);
  first->work.frames = 3;
  first->work.oldest = time_point{};
  slot_ring::drop(*first);
  ring_.collect();
  slot* const again = ring_.claim();
  ASSERT_EQ(again, first);
  EXPECT_TRUE(again->work.requests.empty());
  EXPECT_EQ(again->work.frames, 0);
  EXPECT_EQ(again->work.oldest, never);
  EXPECT_EQ(again->references.load(), 1U);
  slot_ring::drop(*again);
}

TEST_F(SlotRing, GivesEverySlotItsOwnAlignedMemoryOfTheAskedSize) {
  std::set<const std::byte*> seen;
  for (slot* each : claim_all()) {
    for (const auto& [memory, bytes] :
         {std::pair{each->pinned_input.get(), size.pinned_input},
          std::pair{each->pinned_output.get(), size.pinned_output}, std::pair{each->workspace.get(), size.workspace}}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
      std::fill(memory, memory + bytes, std::byte{0xFF});  // AddressSanitizer tells when it is too small
      EXPECT_TRUE(seen.insert(memory).second);
    }
    EXPECT_GE(each->work.requests.capacity(), size.max_frames);
    EXPECT_EQ(each->launches.size(), size.launches);
    EXPECT_EQ(each->operands.size(), size.operands);
    EXPECT_EQ(each->done, nullptr);
    slot_ring::drop(*each);
  }
}

TEST_F(SlotRing, GivesPolledSlotsAnEvent) {
  slot_ring polled(device_, 1, size, true, completed_, signal_);
  slot* const only = polled.claim();
  ASSERT_NE(only->done, nullptr);
  slot_ring::drop(*only);
}

TEST(SlotRingOverThreads, LosesNoSlotWhenAnotherThreadDropsThem) {
  constexpr int rounds = 20000;
  testing::manual_device device;
  wake_event signal;
  completion_queue completed(signal);
  slot_ring slots(device, 4, {16, 16, 16, 1, 1, 1}, false, completed, signal);
  completion_queue lent(signal);  // the way to the other thread
  std::thread other([&lent] {
    for (int dropped = 0; dropped < rounds;) {
      for (completion_node* node = lent.take(); node != nullptr; ++dropped) {
        completion_node* const next = node->next;
        slot& held = *node->owner;
        EXPECT_EQ(held.pinned_output.get()[0], std::byte{1});
        slot_ring::drop(held);
        node = next;
      }
    }
  });
  for (int sent = 0; sent < rounds;) {
    slots.collect();
    if (slot* const taken = slots.claim()) {
      taken->pinned_output.get()[0] = std::byte{1};
      taken->references.fetch_add(1, std::memory_order_relaxed);
      taken->completed.owner = taken;
      lent.push(taken->completed);
      slot_ring::drop(*taken);
      ++sent;
    }
  }
  other.join();
  slots.collect();
  EXPECT_EQ(slots.free(), slots.size());
}

}  // namespace
}  // namespace penstock
