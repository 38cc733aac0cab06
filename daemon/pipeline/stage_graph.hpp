#pragma once

#include <cstddef>
#include <vector>

namespace penstock {

/// Which stage reads which, by their places in the declaration. reads[i] lists the stages that stage i reads from; the
/// pipeline's input is not among them. Every place is below reads.size().
struct stage_graph {
  std::vector<std::vector<std::size_t>> reads;

  /// An order in which every stage comes after all that it reads from; of those that could be next, the one declared
  /// first is. When there are cycles, the stages in them and behind them are missing.
  [[nodiscard]] std::vector<std::size_t> running_order() const;

  /// One cycle, each stage reading from the next and the last from the first; empty when there is none.
  [[nodiscard]] std::vector<std::size_t> cycle() const;
};

}  // namespace penstock
