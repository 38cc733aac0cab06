#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock {

/// One piece of a batch's work, as the schedule is asked for it. Nodes are numbered as they stand; each comes after all
/// that it reads from.
struct schedule_node {
  std::vector<std::size_t> reads;
  /// It goes where the node that it reads from went, even if other work stands behind that by now.
  bool follows = false;
};

/// Where a node runs and what it waits for. Events are numbered from 0; a slot has one of each.
struct schedule_step {
  std::uint32_t lane = 0;
  std::vector<std::uint32_t> waits;  ///< events of other lanes, recorded earlier
  std::int32_t event = -1;           ///< recorded right behind it, where another lane waits for it
};

/// A DAG laid on lanes: lane 0 is the stream that the batch is given, the others are further streams of the wheel.
/// There is an event only where a lane needs to hear of another and does not know already.
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
  std::vector<std::vector<std::uint32_t>> known_;  // by node and lane: up to which place that lane is done by then
};

/// Branches that don't depend on each other get lanes of their own, as far as `max_lanes` (≥ 1) has them. A node stays
/// on a lane whose last work it depends on anyway. Pure.
[[nodiscard]] schedule make_schedule(const std::vector<schedule_node>& nodes, std::uint32_t max_lanes);

}  // namespace penstock
