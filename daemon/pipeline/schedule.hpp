#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock {

/// One piece of a batch's work. Nodes are numbered in the order of the list; each comes after all that it reads from.
struct schedule_node {
  std::vector<std::size_t> reads;
  /// It runs on the lane of the node that it reads from, even if other work is queued there by now.
  bool follows = false;
};

/// Where a node runs and what it waits for. Events are numbered from 0; a slot has one of each.
struct schedule_step {
  std::uint32_t lane = 0;
  std::vector<std::uint32_t> waits;  ///< events of other lanes, recorded earlier
  std::int32_t event = -1;           ///< recorded right behind the node, if another lane waits for it
};

/// A DAG laid on lanes: lane 0 is the stream that the batch is given, the others are further streams of the stream
/// pool. A lane waits for an event of another only where the order does not follow from earlier waits.
struct schedule {
  std::vector<schedule_step> steps;  ///< by node; enqueued in this order
  std::vector<std::uint32_t> joins;  ///< events that lane 0 waits for before the batch's completion
  std::uint32_t lanes = 1;
  std::uint32_t events = 0;

  /// Whether `earlier` is always done before `later` starts, by the order of lanes and events.
  [[nodiscard]] bool before(std::size_t earlier, std::size_t later) const noexcept {
    return earlier != later && known_[later][steps[earlier].lane] >= positions_[earlier];
  }

 private:
  friend schedule make_schedule(const std::vector<schedule_node>& nodes, std::uint32_t max_lanes);
  std::vector<std::uint32_t> positions_;           // by node: its place in its lane, from 1
  std::vector<std::vector<std::uint32_t>> known_;  // by node and lane: how far that lane is done when the node starts
};

/// Independent branches get lanes of their own, at most `max_lanes` (≥ 1). A node stays on a lane whose last work it
/// depends on. Pure.
[[nodiscard]] schedule make_schedule(const std::vector<schedule_node>& nodes, std::uint32_t max_lanes);

}  // namespace penstock
