#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/config/sink_declaration.hpp"
#include "daemon/live/result_message.hpp"
#include "daemon/live/source.hpp"
#include "daemon/live/source_gate.hpp"
#include "daemon/telemetry/sink_board.hpp"

namespace penstock::live {

/// Makes the writer of a sink. Throws std::runtime_error when it can't begin now.
using writer_factory = std::function<std::unique_ptr<result_writer>(const sink_declaration& sink)>;

/// One [[sink]] at work: a client of each shard, which subscribes, and a thread that writes what comes. Results wait in
/// a queue; where it is full they are dropped, or the gates of the sources that they come of are closed. Those gates
/// are closed too from the constructor on until it has subscribed. Members: any thread.
class sink {
 public:
  /// Starts the thread. With `before`, which it takes over, it first waits for that one's end. References outlive it.
  sink(sink_declaration declaration, std::vector<shard_endpoint> shards, sink_board& board, source_gates& gates,
       writer_factory make_writer, std::unique_ptr<sink> before = nullptr);
  sink(const sink&) = delete;
  sink& operator=(const sink&) = delete;
  /// Stops it and waits for its thread.
  ~sink();

  /// Tells it to end: what has come is written, as far as the receiver takes it within a short time. Does not wait.
  void stop() noexcept;
  [[nodiscard]] bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }
  [[nodiscard]] const sink_declaration& declaration() const noexcept;

 private:
  class inbox;
  class worker;

  const std::vector<shard_endpoint> shards_;
  sink_board& board_;
  const writer_factory make_writer_;
  std::unique_ptr<sink> before_;
  std::shared_ptr<inbox> inbox_;  // clients' threads may have it a little longer
  std::atomic<bool> stop_{false};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace penstock::live
