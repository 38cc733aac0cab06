#include "daemon/pipeline/stage_graph.hpp"

#include <algorithm>

namespace penstock {

std::vector<std::size_t> stage_graph::running_order() const {
  std::vector<std::size_t> order;
  std::vector<bool> placed(reads.size(), false);
  const auto ready = [&](std::size_t stage) {
    return !placed[stage] && std::all_of(reads[stage].begin(), reads[stage].end(),
                                         [&](std::size_t source) { return static_cast<bool>(placed[source]); });
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t stage = 0; stage < reads.size() && !progress; ++stage) {
      if (ready(stage)) {
        placed[stage] = true;
        order.push_back(stage);
        progress = true;
      }
    }
  }
  return order;
}

std::vector<std::size_t> stage_graph::cycle() const {
  const std::vector<std::size_t> order = running_order();
  std::vector<bool> stuck(reads.size(), true);
  for (const std::size_t stage : order) {
    stuck[stage] = false;
  }
  const auto first = std::find(stuck.begin(), stuck.end(), true);
  if (first == stuck.end()) {
    return {};
  }
  // A stuck stage reads from at least one stuck stage: following those must come back to where the walk has been.
  std::vector<std::size_t> walk{static_cast<std::size_t>(first - stuck.begin())};
  while (true) {
    const auto& sources = reads[walk.back()];
    const std::size_t next = *std::find_if(sources.begin(), sources.end(),
                                           [&](std::size_t source) { return static_cast<bool>(stuck[source]); });
    const auto seen = std::find(walk.begin(), walk.end(), next);
    if (seen != walk.end()) {
      walk.erase(walk.begin(), seen);
      return walk;
    }
    walk.push_back(next);
  }
}

}  // namespace penstock
