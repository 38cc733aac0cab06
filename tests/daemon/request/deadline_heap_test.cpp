#include <iterator>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/request/request.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;

TEST(DeadlineHeap, SaysNeverWhenEmpty) {
  const deadline_heap heap;
  EXPECT_EQ(heap.earliest(), never);
  EXPECT_EQ(heap.due(never), nullptr);
}

TEST(DeadlineHeap, HasNothingDueBeforeTheDeadlineAndItAtTheDeadline) {
  deadline_heap heap;
  request one;
  one.deadline = time_point{nanoseconds{100}};
  heap.push(one);
  EXPECT_EQ(heap.due(time_point{nanoseconds{99}}), nullptr);
  EXPECT_EQ(heap.due(time_point{nanoseconds{100}}), &one);
}

// Against std::multimap, with few different deadlines so that ties are common.
class DeadlineHeapProperty : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(DeadlineHeapProperty, AgreesWithAMultimap) {
  std::mt19937 random(GetParam());
  std::vector<request> pool(200);
  deadline_heap heap;
  std::multimap<time_point, request*> model;
  std::vector<request*> outside;
  for (request& each : pool) {
    outside.push_back(&each);
  }
  for (int step = 0; step < 20000; ++step) {
    const auto dice = random() % 10;
    if (!outside.empty() && (model.empty() || dice < 5)) {
      request* const one = outside.back();
      outside.pop_back();
      one->deadline = time_point{nanoseconds{random() % (GetParam() % 2 == 0 ? 16 : 1000000)}};
      heap.push(*one);
      model.emplace(one->deadline, one);
    } else {
      auto victim = std::next(model.begin(), static_cast<std::ptrdiff_t>(random() % model.size()));
      if (dice == 9) {
        const request* const top = heap.due(never - nanoseconds{1});
        ASSERT_NE(top, nullptr);
        for (victim = model.begin(); victim->second != top; ++victim) {
          ASSERT_EQ(victim->first, model.begin()->first) << "the top is not the earliest";
        }
      }
      heap.remove(*victim->second);
      outside.push_back(victim->second);
      model.erase(victim);
    }
    ASSERT_EQ(heap.size(), model.size());
    ASSERT_EQ(heap.earliest(), model.empty() ? never : model.begin()->first);
  }
  while (!model.empty()) {
    request* const top = heap.due(never - nanoseconds{1});
    ASSERT_NE(top, nullptr);
    ASSERT_EQ(top->deadline, model.begin()->first);
    const auto [first, last] = model.equal_range(top->deadline);
    auto same = first;
    while (same != last && same->second != top) {
      ++same;
    }
    ASSERT_NE(same, last) << "the top is in the heap twice, or never was";
    model.erase(same);
    heap.remove(*top);
  }
  EXPECT_EQ(heap.size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeadlineHeapProperty, ::testing::Values(1U, 2U, 3U, 4U));

}  // namespace
}  // namespace penstock
