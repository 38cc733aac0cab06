#include <algorithm>
#include <list>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/request/request.hpp"

namespace penstock {
namespace {

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

}  // namespace
}  // namespace penstock
