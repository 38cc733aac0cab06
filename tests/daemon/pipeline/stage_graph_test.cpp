#include "daemon/pipeline/stage_graph.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using places = std::vector<std::size_t>;

TEST(stage_graph, KeepsTheDeclaredOrderWhereItCanRun) {
  EXPECT_EQ((stage_graph{{{}, {0}, {0}, {1, 2}}}.running_order()), (places{0, 1, 2, 3}));
}

TEST(stage_graph, PutsReadersAfterWhatTheyRead) {
  EXPECT_EQ((stage_graph{{{2}, {}, {1}}}.running_order()), (places{1, 2, 0}));
}

TEST(stage_graph, OrdersRandomGraphsWithoutCycles) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::size_t stages = 1 + random() % 12;
    places rank(stages);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      rank[stage] = stage;
    }
    std::shuffle(rank.begin(), rank.end(), random);
    stage_graph graph{std::vector<places>(stages)};
    for (std::size_t pair = 0; pair < 2 * stages; ++pair) {
      const std::size_t reader = random() % stages;
      const std::size_t source = random() % stages;
      if (rank[source] < rank[reader]) {
        graph.reads[reader].push_back(source);
      }
    }
    const places order = graph.running_order();
    ASSERT_EQ(order.size(), stages);
    EXPECT_TRUE(graph.cycle().empty());
    for (std::size_t reader = 0; reader < stages; ++reader) {
      for (const std::size_t source : graph.reads[reader]) {
        EXPECT_LT(std::find(order.begin(), order.end(), source), std::find(order.begin(), order.end(), reader));
      }
    }
  }
}

TEST(stage_graph, FindsTheCycleAndNotWhatLeadsToIt) {
  EXPECT_EQ((stage_graph{{{1}, {2}, {3}, {1}}}.cycle()), (places{1, 2, 3}));
  EXPECT_EQ((stage_graph{{{}, {1}}}.cycle()), (places{1}));
}

}  // namespace
}  // namespace penstock
