#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/load.hpp"

namespace penstock::bench {

/// Clients that send their next request as soon as a reply comes. The same against a daemon, an echo and a server
/// written by hand, so that ratios between them are fair.
struct closed_loop_settings {
  std::string endpoint;
  bool hello = true;  ///< a daemon: greet it first, and go where it says
  std::uint32_t pipeline = 0;
  std::uint32_t pipelines = 1;  ///< client n sends to the pipeline n modulo this after the first
  std::size_t floats = 64;      ///< of a frame
  std::uint32_t frames = 1;     ///< of a request
  std::size_t clients = 1;
  std::size_t in_flight = 1;  ///< of each client
};

class closed_loop_thread;

/// The connections stay from run to run. Several clients are spread over up to a quarter of the machine's cores.
class closed_loop {
 public:
  /// Throws std::runtime_error when the daemon does not answer.
  explicit closed_loop(const closed_loop_settings& settings);
  ~closed_loop();
  closed_loop(closed_loop&& other) noexcept;
  closed_loop& operator=(closed_loop&&) = delete;

  /// Sends for so long, then waits for what is in flight. The latencies are those of the first 100,000 requests of each
  /// thread. Throws std::runtime_error on a reply that is not the RESULT (or the echo) that was asked for, and when
  /// none comes for 20 s.
  load_result run(std::chrono::milliseconds span);

 private:
  std::vector<std::unique_ptr<closed_loop_thread>> threads_;
};

}  // namespace penstock::bench
