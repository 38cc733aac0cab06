#include "daemon/pipeline/schedule.hpp"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::size_t nothing = static_cast<std::size_t>(-1);

/// By node: all that it depends on, directly or not.
std::vector<std::vector<bool>> ancestors_of(const std::vector<schedule_node>& nodes) {
  std::vector<std::vector<bool>> all(nodes.size(), std::vector<bool>(nodes.size(), false));
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (const std::size_t source : nodes[node].reads) {
      all[node][source] = true;
      for (std::size_t other = 0; other < source; ++other) {
        all[node][other] = all[node][other] || all[source][other];
      }
    }
  }
  return all;
}

/// The lane of each node: the first whose last work the node reads from, else the first whose last work it depends on
/// otherwise, else a lane of its own; where there are no more, the one that has gone without work longest.
std::vector<std::uint32_t> lanes_of(const std::vector<schedule_node>& nodes, std::uint32_t max_lanes) {
  const std::vector<std::vector<bool>> ancestors = ancestors_of(nodes);
  std::vector<std::uint32_t> lanes;
  std::vector<std::size_t> last{nothing};
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::vector<std::size_t>& reads = nodes[node].reads;
    const auto first_lane_where = [&](const auto& fits) {
      const auto found = std::find_if(last.begin(), last.end(), fits);
      return found == last.end() ? nothing : static_cast<std::size_t>(found - last.begin());
    };
    std::size_t lane = first_lane_where([&](std::size_t tail) {
      return tail == nothing || std::find(reads.begin(), reads.end(), tail) != reads.end();
    });
    if (lane == nothing) {
      lane = first_lane_where([&](std::size_t tail) { return static_cast<bool>(ancestors[node][tail]); });
    }
    if (lane == nothing && last.size() < max_lanes) {
      lane = last.size();
      last.push_back(nothing);
    }
    if (lane == nothing) {
      lane = static_cast<std::size_t>(std::min_element(last.begin(), last.end()) - last.begin());
    }
    if (nodes[node].follows) {
      lane = lanes[nodes[node].reads.front()];
    }
    last[lane] = node;
    lanes.push_back(static_cast<std::uint32_t>(lane));
  }
  return lanes;
}

}  // namespace

schedule make_schedule(const std::vector<schedule_node>& nodes, std::uint32_t max_lanes) {
  schedule made;
  const std::vector<std::uint32_t> lanes = lanes_of(nodes, max_lanes);
  made.lanes = nodes.empty() ? 1 : *std::max_element(lanes.begin(), lanes.end()) + 1;
  // What each lane has heard of the others so far.
  std::vector<std::vector<std::uint32_t>> heard(made.lanes, std::vector<std::uint32_t>(made.lanes, 0));
  std::vector<std::size_t> last(made.lanes, nothing);
  const auto listen = [&](std::uint32_t lane, std::size_t to, std::vector<std::uint32_t>& waits) {
    const std::uint32_t other = made.steps[to].lane;
    if (other == lane || heard[lane][other] >= made.positions_[to]) {
      return;
    }
    std::int32_t& event = made.steps[to].event;
    if (event < 0) {
      event = static_cast<std::int32_t>(made.events++);
    }
    waits.push_back(static_cast<std::uint32_t>(event));
    for (std::uint32_t each = 0; each < made.lanes; ++each) {
      heard[lane][each] = std::max(heard[lane][each], made.known_[to][each]);
    }
  };
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    schedule_step step{.lane = lanes[node], .waits = {}, .event = -1};
    // The latest first: it may have heard of the others.
    std::vector<std::size_t> sources = nodes[node].reads;
    std::sort(sources.rbegin(), sources.rend());
    for (const std::size_t source : sources) {
      listen(step.lane, source, step.waits);
    }
    std::vector<std::uint32_t>& mine = heard[step.lane];
    made.positions_.push_back(++mine[step.lane]);
    made.known_.push_back(mine);
    last[step.lane] = node;
    made.steps.push_back(std::move(step));
  }
  // The latest first, as above: a lane that has joined another needs no wait for it.
  std::sort(last.rbegin(), last.rend());
  for (const std::size_t tail : last) {
    if (tail != nothing) {
      listen(0, tail, made.joins);
    }
  }
  return made;
}

}  // namespace penstock
