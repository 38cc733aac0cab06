#include <cstdint>
#include <random>

#include "tests/daemon/request/fair_queue_rig.hpp"

namespace penstock {
namespace {

using testing::quantum;

class HeavyClients : public testing::fair_queue_rig {};

TEST_F(HeavyClients, ArePassedOverWhileTheyAreHeldBack) {
  for (int one = 0; one < 40; ++one) {
    push(0, quantum);
  }
  serve();
  request& light = push(1, quantum);
  push(2, quantum);
  serve();
  serve();
  request& again = push(1, quantum);
  EXPECT_TRUE(queue_.heavy(*queue_.oldest_of(client(0))));
  EXPECT_FALSE(queue_.heavy(again));
  EXPECT_NE(&light, &again);
  EXPECT_EQ(queue_.first(false), &again);
}

TEST_F(HeavyClients, LeaveNoFirstWhenAllAreHeldBack) {
  for (std::uint32_t from = 0; from < 3; ++from) {
    for (int one = 0; one < 20; ++one) {
      push(from, quantum);
    }
  }
  EXPECT_EQ(queue_.first(false), nullptr);
  EXPECT_NE(queue_.first(), nullptr);
}

TEST_F(HeavyClients, HaveMoreThanSixteenTurnsWaiting) {
  for (int one = 0; one < 17; ++one) {
    push(0, quantum);
  }
  EXPECT_EQ(queue_.first(false), nullptr);
  serve();
  EXPECT_NE(queue_.first(false), nullptr);
}

TEST_F(HeavyClients, AreServedEveryRequestOnceWheneverTheyAreHeldBack) {
  std::mt19937 random(11);
  std::size_t pushed = 0;
  std::size_t served = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      push(random() % 3 == 0 ? static_cast<std::uint32_t>(random() % 6) : 0U, 1 + random() % quantum);
      ++pushed;
    } else if (request* const next = queue_.first(random() % 2 == 0)) {
      queue_.take(*next);
      ++served;
    }
  }
  for (; queue_.first() != nullptr; ++served) {
    queue_.take(*queue_.first());
  }
  EXPECT_EQ(served, pushed);
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace penstock
