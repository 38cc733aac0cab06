#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/config/source_declaration.hpp"
#include "daemon/live/sample_stream.hpp"
#include "daemon/live/source_gate.hpp"
#include "daemon/telemetry/source_board.hpp"

namespace penstock::live {

/// Where a source or sink connects to a shard, within the process.
struct shard_endpoint {
  std::uint32_t number = 0;
  void* context = nullptr;  ///< as client_options::zmq_context
  std::string url;
};

/// Makes the reader of a source. Throws std::runtime_error when it can't begin now. `rate`: in, the configuration's;
/// out, that of the file, where it says one.
using reader_factory = std::function<std::unique_ptr<sample_reader>(const source_declaration& source, double& rate)>;

/// One [[source]] at work: a thread that reads, makes blocks, and sends them to the pipeline as a client of the shard.
/// Its reader is made again, after a pause, when it fails. Members: any thread.
class source {
 public:
  /// Starts the thread. With `before`, which it takes over, it first waits for that one's end. `board` outlives it.
  /// While `gate` is closed nothing is sent; nullptr: it never is.
  source(source_declaration declaration, shard_endpoint shard, source_board& board, reader_factory make_reader,
         std::unique_ptr<source> before = nullptr, std::shared_ptr<source_gate> gate = nullptr);
  source(const source&) = delete;
  source& operator=(const source&) = delete;
  /// Stops it and waits for its thread.
  ~source();

  /// Tells it to end: what has come is sent on, and answered for a short time. Does not wait.
  void stop() noexcept;
  /// Whether its thread is over, so that the destructor does not wait.
  [[nodiscard]] bool is_over() const noexcept { return over_.load(std::memory_order_acquire); }
  [[nodiscard]] const source_declaration& declaration() const noexcept { return declaration_; }

 private:
  class worker;

  struct shared_parts;

  const source_declaration declaration_;
  const shard_endpoint shard_;
  source_board& board_;
  const reader_factory make_reader_;
  std::unique_ptr<source> before_;
  std::shared_ptr<shared_parts> shared_;  // with what the shard may still hold of it
  std::shared_ptr<source_gate> gate_;
  std::atomic<bool> stop_{false};  // written by any thread
  std::atomic<bool> over_{false};  // written by its own
  std::thread thread_;
};

}  // namespace penstock::live
