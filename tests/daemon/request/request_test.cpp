#include "daemon/request/request.hpp"

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::nanoseconds;

std::vector<request*> members(const request_queue& queue) {
  std::vector<request*> all;
  for (request* each = queue.first(); each != nullptr; each = each->next) {
    all.push_back(each);
  }
  return all;
}

TEST(RequestQueue, IsEmptyAtFirst) {
  const request_queue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.first(), nullptr);
}

TEST(RequestQueue, KeepsTheOrderWhateverIsRemoved) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<request> pool(64);
    std::vector<request*> outside;
    for (request& each : pool) {
      outside.push_back(&each);
    }
    request_queue queue;
    std::list<request*> model;
    for (int step = 0; step < 5000; ++step) {
      if (!outside.empty() && (model.empty() || random() % 2 == 0)) {
        std::swap(outside[random() % outside.size()], outside.back());
        queue.push(*outside.back());
        model.push_back(outside.back());
        outside.pop_back();
      } else {
        const auto victim = std::next(model.begin(), static_cast<std::ptrdiff_t>(random() % model.size()));
        queue.remove(**victim);
        outside.push_back(*victim);
        model.erase(victim);
      }
      ASSERT_EQ(members(queue), std::vector<request*>(model.begin(), model.end()));
      ASSERT_EQ(queue.size(), model.size());
      ASSERT_EQ(queue.empty(), model.empty());
    }
  }
}

TEST(RequestPool, GivesIndicesThatNoTwoHave) {
  request_pool pool;
  std::set<std::uint32_t> indices;
  for (int count = 0; count < 1000; ++count) {
    indices.insert(pool.claim().index);
  }
  EXPECT_EQ(indices.size(), 1000U);
  EXPECT_EQ(*indices.rbegin(), 999U);
}

TEST(RequestPool, GivesAReleasedOneAgainCleanAndAtItsPlace) {
  request_pool pool;
  request& first = pool.claim();
  (void)pool.claim();
  const std::uint32_t index = first.index;
  first.id = 9;
  first.deadline = time_point{};
  first.step = request_step::answered;
  first.home = reinterpret_cast<slot*>(&first);
  pool.release(first);
  request& again = pool.claim();
  EXPECT_EQ(&again, &first);
  EXPECT_EQ(again.index, index);
  EXPECT_EQ(again.id, 0U);
  EXPECT_EQ(again.deadline, never);
  EXPECT_EQ(again.step, request_step::queued);
  EXPECT_EQ(again.home, nullptr);
  EXPECT_EQ(pool.size(), usual_requests);
}

TEST(RequestPool, NeverMovesARequest) {
  request_pool pool;
  request* const first = &pool.claim();
  first->id = 5;
  for (int count = 0; count < 10000; ++count) {
    (void)pool.claim();
  }
  EXPECT_EQ(first->id, 5U);
  EXPECT_EQ(first->index, 0U);
}

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
