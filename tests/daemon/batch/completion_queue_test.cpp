#include "daemon/batch/completion_queue.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

namespace penstock {
namespace {

bool readable(const wake_event& signal, int patience_ms = 0) {
  pollfd descriptor{signal.descriptor(), POLLIN, 0};
  return ::poll(&descriptor, 1, patience_ms) == 1;
}

TEST(WakeSignal, StaysSilentWhileNobodySleeps) {
  wake_event signal;
  signal.wake();
  EXPECT_FALSE(readable(signal));
}

TEST(WakeSignal, WakesASleeper) {
  wake_event signal;
  signal.prepare();
  EXPECT_FALSE(readable(signal));
  signal.wake();
  EXPECT_TRUE(readable(signal));
  signal.awake();
  EXPECT_FALSE(readable(signal));
}

TEST(WakeSignal, WritesOnceForManyWakers) {
  wake_event signal;
  signal.prepare();
  signal.wake();
  signal.wake();
  signal.wake();
  std::uint64_t count = 0;
  ASSERT_EQ(::read(signal.descriptor(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
  EXPECT_EQ(count, 1U);
}

TEST(WakeSignal, StaysSilentOnceAwake) {
  wake_event signal;
  signal.prepare();
  signal.awake();
  signal.wake();
  EXPECT_FALSE(readable(signal));
}

// A waker can be interrupted between its exchange and its write: the sleeper is awake and has cleared the descriptor by
// the time of the write. That costs one needless wake, and must not cost one after the other for ever.
TEST(WakeSignal, ClearsWhatALateWakerWroteAtTheNextWake) {
  wake_event signal;
  signal.prepare();
  signal.awake();
  const std::uint64_t late = 1;
  ASSERT_EQ(::write(signal.descriptor(), &late, sizeof late), static_cast<ssize_t>(sizeof late));
  signal.prepare();
  EXPECT_TRUE(readable(signal));
  signal.awake();
  EXPECT_FALSE(readable(signal));
}

TEST(CompletionQueue, IsEmptyAtFirst) {
  wake_event signal;
  completion_queue queue(signal);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.take(), nullptr);
}

TEST(CompletionQueue, HandsOverTheOldestFirst) {
  wake_event signal;
  completion_queue queue(signal);
  std::vector<completion_node> nodes(5);
  for (completion_node& each : nodes) {
    queue.push(each);
  }
  EXPECT_FALSE(queue.empty());
  const completion_node* at = queue.take();
  for (const completion_node& each : nodes) {
    ASSERT_EQ(at, &each);
    at = at->next;
  }
  EXPECT_EQ(at, nullptr);
  EXPECT_TRUE(queue.empty());
}

TEST(CompletionQueue, TakesTheSameNodeAgain) {
  wake_event signal;
  completion_queue queue(signal);
  completion_node node;
  for (int round = 0; round < 3; ++round) {
    queue.push(node);
    ASSERT_EQ(queue.take(), &node);
    ASSERT_EQ(node.next, nullptr);
  }
}

TEST(CompletionQueue, WakesTheSleeper) {
  wake_event signal;
  completion_queue queue(signal);
  completion_node node;
  signal.prepare();
  ASSERT_TRUE(queue.empty());
  queue.push(node);
  EXPECT_TRUE(readable(signal));
}

// One of several threads that push their nodes again and again, each as soon as the consumer has given it back.
struct pusher {
  struct parcel {
    completion_node node;
    std::uint64_t number = 0;  // written by the pusher before the push, read by the consumer after the take
    std::uint32_t from = 0;
    std::atomic<bool> back{true};  // set by the consumer, cleared by the pusher
  };
  std::deque<parcel> parcels{4};

  void run(completion_queue& queue, std::uint64_t rounds) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      parcel& next = parcels[round % parcels.size()];
      next.back.wait(false, std::memory_order_acquire);
      next.back.store(false, std::memory_order_relaxed);
      next.number = round;
      next.node.owner = reinterpret_cast<slot*>(&next);
      queue.push(next.node);
    }
  }
};

// A lost wake-up would leave the consumer in poll(), a lost or doubled node would break a pusher's count.
TEST(CompletionQueue, LosesNeitherANodeNorAWakeUpOfSeveralThreads) {
  constexpr std::uint64_t rounds = 20000;
  constexpr std::uint32_t pushers = 3;
  wake_event signal;
  completion_queue queue(signal);
  std::vector<pusher> all(pushers);
  std::vector<std::uint64_t> next(pushers, 0);
  std::vector<std::thread> threads;
  for (std::uint32_t index = 0; index < pushers; ++index) {
    for (pusher::parcel& each : all[index].parcels) {
      each.from = index;
    }
    threads.emplace_back([&queue, &mine = all[index]] { mine.run(queue, rounds); });
  }
  bool lost = false;
  for (std::uint64_t taken = 0; taken < rounds * pushers && !lost;) {
    completion_node* node = queue.take();
    if (node == nullptr) {
      signal.prepare();
      lost = queue.empty() && !readable(signal, 30000);
      signal.awake();
    }
    while (node != nullptr) {
      completion_node* const following = node->next;
      auto& parcel = *reinterpret_cast<pusher::parcel*>(node->owner);
      EXPECT_EQ(parcel.number, next[parcel.from]++) << "out of order";
      parcel.back.store(true, std::memory_order_release);
      parcel.back.notify_one();
      ++taken;
      node = following;
    }
  }
  ASSERT_FALSE(lost) << "nobody woke the sleeper";
  for (std::thread& each : threads) {
    each.join();
  }
  EXPECT_EQ(next, std::vector<std::uint64_t>(pushers, rounds));
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace penstock
