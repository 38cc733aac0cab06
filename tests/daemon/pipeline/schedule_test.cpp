#include "daemon/pipeline/schedule.hpp"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using nodes = std::vector<schedule_node>;
using events = std::vector<std::uint32_t>;

/// Nodes that read from those, without further wishes.
nodes reading(const std::vector<std::vector<std::size_t>>& reads) {
  nodes made;
  for (const auto& each : reads) {
    made.push_back({.reads = each, .follows = false});
  }
  return made;
}

std::vector<std::uint32_t> lanes_of(const schedule& made) {
  std::vector<std::uint32_t> lanes;
  for (const schedule_step& step : made.steps) {
    lanes.push_back(step.lane);
  }
  return lanes;
}

/// What the order of lanes and the events enforce, as a graph of its own. Its last node is the batch's completion.
class enforced_order {
 public:
  explicit enforced_order(const schedule& made) : size_(made.steps.size() + 1), recorders_(made.events, size_) {
    for (std::size_t node = 0; node < made.steps.size(); ++node) {
      if (const std::int32_t event = made.steps[node].event; event >= 0) {
        recorders_.at(static_cast<std::size_t>(event)) = node;
      }
    }
    for (std::size_t node = 0; node < made.steps.size(); ++node) {
      lane_edge(made, node, made.steps[node].lane);
      for (const std::uint32_t event : made.steps[node].waits) {
        waits_.emplace_back(recorders_.at(event), node);
      }
    }
    lane_edge(made, size_ - 1, 0);
    for (const std::uint32_t event : made.joins) {
      waits_.emplace_back(recorders_.at(event), size_ - 1);
    }
  }

  using edge = std::pair<std::size_t, std::size_t>;
  [[nodiscard]] const std::vector<edge>& waits() const { return waits_; }
  /// The node that records each event; size() where none does.
  [[nodiscard]] const std::vector<std::size_t>& recorders() const { return recorders_; }
  [[nodiscard]] std::size_t completion() const { return size_ - 1; }

  /// By Warshall's algorithm, over every edge but `without`.
  [[nodiscard]] std::vector<std::vector<bool>> reachable(edge without = {}) const {
    std::vector<std::vector<bool>> reach(size_, std::vector<bool>(size_, false));
    for (const auto& [from, to] : lane_edges_) {
      reach[from][to] = true;
    }
    for (const edge& each : waits_) {
      reach[each.first][each.second] = reach[each.first][each.second] || each != without;
    }
    for (std::size_t middle = 0; middle < size_; ++middle) {
      for (std::size_t from = 0; from < size_; ++from) {
        for (std::size_t to = 0; to < size_; ++to) {
          reach[from][to] = reach[from][to] || (reach[from][middle] && reach[middle][to]);
        }
      }
    }
    return reach;
  }

 private:
  void lane_edge(const schedule& made, std::size_t to, std::uint32_t lane) {
    for (std::size_t from = std::min(to, made.steps.size()); from-- > 0;) {
      if (made.steps[from].lane == lane) {
        lane_edges_.emplace_back(from, to);
        return;
      }
    }
  }

  std::size_t size_;
  std::vector<std::size_t> recorders_;
  std::vector<edge> lane_edges_;
  std::vector<edge> waits_;
};

TEST(schedule, LaysAChainOnOneLaneWithoutEvents) {
  const schedule made = make_schedule(reading({{}, {0}, {1}, {2}}), 8);
  EXPECT_EQ(made.lanes, 1U);
  EXPECT_EQ(made.events, 0U);
  EXPECT_EQ(made.joins, events{});
  EXPECT_TRUE(made.before(0, 3));
  EXPECT_FALSE(made.before(3, 0));
  EXPECT_FALSE(made.before(2, 2));
}

TEST(schedule, LaysADiamondOnTwoLanesWithOneEventAtTheForkAndOneAtTheJoin) {
  const schedule made = make_schedule(reading({{}, {0}, {1}, {1}, {2, 3}}), 8);
  EXPECT_EQ(lanes_of(made), (std::vector<std::uint32_t>{0, 0, 0, 1, 0}));
  EXPECT_EQ(made.events, 2U);
  EXPECT_EQ(made.steps[1].event, 0);
  EXPECT_EQ(made.steps[3].waits, events{0});
  EXPECT_EQ(made.steps[3].event, 1);
  EXPECT_EQ(made.steps[4].waits, events{1});
  EXPECT_EQ(made.joins, events{});
  EXPECT_FALSE(made.before(2, 3));
  EXPECT_FALSE(made.before(3, 2));
  EXPECT_TRUE(made.before(3, 4));
}

TEST(schedule, JoinsALaneThatNobodyReadsBeforeTheCompletion) {
  const schedule made = make_schedule(reading({{}, {0}, {0}}), 8);
  EXPECT_EQ(lanes_of(made), (std::vector<std::uint32_t>{0, 0, 1}));
  EXPECT_EQ(made.joins, events{static_cast<std::uint32_t>(made.steps[2].event)});
  EXPECT_EQ(made.events, 2U);
}

TEST(schedule, RecordsOneEventForAForkOfMany) {
  const schedule made = make_schedule(reading({{}, {0}, {0}, {0}, {0}}), 8);
  EXPECT_EQ(made.lanes, 4U);
  EXPECT_EQ(made.events, 1U + 3U) << "the fork, and a join for each further lane";
  for (const std::size_t branch : {2U, 3U, 4U}) {
    EXPECT_EQ(made.steps[branch].waits, events{0});
  }
}

TEST(schedule, JoinsNoLaneThatAnotherHasJoined) {
  const schedule made = make_schedule(reading({{}, {0}, {0}, {0}, {2, 3}}), 8);
  EXPECT_EQ(lanes_of(made), (std::vector<std::uint32_t>{0, 0, 1, 2, 1}));
  EXPECT_EQ(made.joins, events{static_cast<std::uint32_t>(made.steps[4].event)});
  EXPECT_EQ(made.events, 3U);
}

TEST(schedule, WaitsOnceForWhatALaneHasHeard) {
  // Both 3 and 5 run on lane 1 and read 1 of lane 0; 3 has waited for it.
  const schedule made = make_schedule(reading({{}, {0}, {1}, {1}, {2}, {1, 3}}), 8);
  EXPECT_EQ(made.steps[3].waits.size(), 1U);
  EXPECT_EQ(made.steps[5].lane, made.steps[3].lane);
  EXPECT_EQ(made.steps[5].waits, events{});
}

TEST(schedule, PutsMoreBranchesThanLanesBehindOneAnother) {
  const schedule made = make_schedule(reading({{}, {0}, {0}, {0}, {0}, {0}}), 2);
  EXPECT_EQ(made.lanes, 2U);
  EXPECT_EQ(made.joins.size(), 1U);
  for (std::size_t branch = 1; branch <= 5; ++branch) {
    EXPECT_TRUE(made.before(0, branch)) << branch;
  }
}

TEST(schedule, LaysEverythingOnTheOneLaneThatThereIs) {
  const schedule made = make_schedule(reading({{}, {0}, {0}, {1, 2}}), 1);
  EXPECT_EQ(made.lanes, 1U);
  EXPECT_EQ(made.events, 0U);
}

TEST(schedule, FollowsAReadNodeOverOtherWork) {
  nodes asked = reading({{}, {0}, {0}, {1}, {1}, {2}});
  asked[4].follows = true;
  asked[5].follows = true;
  const schedule made = make_schedule(asked, 8);
  EXPECT_EQ(made.steps[4].lane, made.steps[1].lane);
  EXPECT_EQ(made.steps[5].lane, made.steps[2].lane);
}

TEST(schedule, OfNothingIsEmpty) {
  const schedule made = make_schedule({}, 8);
  EXPECT_EQ(made.lanes, 1U);
  EXPECT_EQ(made.events, 0U);
  EXPECT_TRUE(made.steps.empty());
}

/// A DAG with up to 14 nodes, each of which reads from up to 3.
nodes random_nodes(std::mt19937& random) {
  nodes made(1 + random() % 14);
  for (std::size_t node = 1; node < made.size(); ++node) {
    for (std::size_t reads = 1 + random() % 3; reads > 0; --reads) {
      made[node].reads.push_back(random() % node);
    }
    made[node].follows = random() % 6 == 0;
  }
  return made;
}

class random_schedule : public testing::TestWithParam<unsigned> {
 protected:
  random_schedule() : random_(GetParam()) {}
  std::mt19937 random_;
};

TEST_P(random_schedule, EnforcesEveryDependencyAndKnowsExactlyWhatItEnforces) {
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << GetParam() << ", round " << round);
    const nodes asked = random_nodes(random_);
    const schedule made = make_schedule(asked, static_cast<std::uint32_t>(1 + random_() % 5));
    ASSERT_EQ(made.steps.size(), asked.size());
    const enforced_order order(made);
    const auto reach = order.reachable();
    for (std::size_t later = 0; later < asked.size(); ++later) {
      for (const std::size_t source : asked[later].reads) {
        EXPECT_TRUE(reach[source][later]) << later << " reads " << source;
      }
      for (std::size_t earlier = 0; earlier < asked.size(); ++earlier) {
        EXPECT_EQ(made.before(earlier, later), reach[earlier][later]) << earlier << " before " << later;
      }
      EXPECT_TRUE(reach[later][order.completion()]) << later;
    }
  }
}

TEST_P(random_schedule, WaitsForNothingThatItKnowsAnyway) {
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << GetParam() << ", round " << round);
    const schedule made = make_schedule(random_nodes(random_), static_cast<std::uint32_t>(1 + random_() % 5));
    const enforced_order order(made);
    for (const auto& wait : order.waits()) {
      EXPECT_FALSE(order.reachable(wait)[wait.first][wait.second]) << wait.second << " waits for " << wait.first;
    }
    for (std::size_t event = 0; event < made.events; ++event) {
      const std::size_t recorder = order.recorders()[event];
      ASSERT_LT(recorder, made.steps.size()) << "nobody records event " << event;
      EXPECT_TRUE(std::any_of(order.waits().begin(), order.waits().end(),
                              [&](const auto& wait) { return wait.first == recorder; }))
          << "nobody waits for event " << event;
    }
  }
}

TEST_P(random_schedule, KeepsToItsLanes) {
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << GetParam() << ", round " << round);
    const nodes asked = random_nodes(random_);
    const auto most = static_cast<std::uint32_t>(1 + random_() % 5);
    const schedule made = make_schedule(asked, most);
    EXPECT_LE(made.lanes, most);
    std::vector<bool> used(made.lanes, false);
    for (std::size_t node = 0; node < asked.size(); ++node) {
      used.at(made.steps[node].lane) = true;
      EXPECT_TRUE(!asked[node].follows || made.steps[node].lane == made.steps[asked[node].reads.front()].lane) << node;
    }
    EXPECT_THAT(used, testing::Each(true));
  }
}

INSTANTIATE_TEST_SUITE_P(seeds, random_schedule, testing::Values(1U, 2U, 3U, 20240607U));

}  // namespace
}  // namespace penstock
