#pragma once

#include <memory>
#include <vector>

#include "daemon/config/sink_declaration.hpp"
#include "daemon/live/sink.hpp"
#include "daemon/telemetry/sink_board.hpp"

namespace penstock::live {

/// The sinks of the configuration. Thread: the admin's. No call waits, except the destructor.
class sink_set {
 public:
  /// `shards`: of all shards. References outlive it.
  sink_set(std::vector<shard_endpoint> shards, sink_board& board, source_gates& gates, writer_factory make_writer);
  sink_set(const sink_set&) = delete;
  sink_set& operator=(const sink_set&) = delete;
  /// Stops all, and waits for them.
  ~sink_set() = default;

  /// From now on these are the sinks: what is new begins, what is gone ends, and what is different ends and begins.
  /// One with an equal declaration goes on untouched. Sources that begin after this miss none.
  void adopt(const std::vector<sink_declaration>& declared);

 private:
  std::vector<shard_endpoint> shards_;
  sink_board& board_;
  source_gates& gates_;
  writer_factory make_writer_;
  std::vector<std::unique_ptr<sink>> running_;
  std::vector<std::unique_ptr<sink>> ending_;
};

}  // namespace penstock::live
