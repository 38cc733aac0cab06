#pragma once

#include <memory>
#include <vector>

#include "base/memory_budget.hpp"
#include "daemon/config/source_declaration.hpp"
#include "daemon/live/source.hpp"
#include "daemon/telemetry/source_board.hpp"

namespace penstock::live {

/// The sources of the configuration. Thread: the admin's. No call waits, except the destructor.
class source_set {
 public:
  /// `shards`: of the shards, at least one. `board`, `gates` and `memory`, of which the queues take theirs, outlive it.
  source_set(std::vector<shard_endpoint> shards, source_board& board, source_gates& gates, memory_budget& memory,
             reader_factory make_reader);
  source_set(const source_set&) = delete;
  source_set& operator=(const source_set&) = delete;
  /// Stops all, and waits for them.
  ~source_set();

  /// From now on these are the sources: what is new begins, what is gone ends, and what is different ends and begins.
  /// One with an equal declaration goes on untouched. They are spread over the shards in their order.
  void adopt(const std::vector<source_declaration>& declared);
  /// Tells all to end.
  void stop() noexcept;
  /// Whether all threads are over.
  [[nodiscard]] bool are_over() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return running_.size(); }

 private:
  std::vector<shard_endpoint> shards_;
  source_board& board_;
  source_gates& gates_;
  memory_budget& memory_;
  std::size_t taken_ = 0;  // of it
  reader_factory make_reader_;
  std::vector<std::unique_ptr<source>> running_;
  std::vector<std::unique_ptr<source>> ending_;
};

}  // namespace penstock::live
