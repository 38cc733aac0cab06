#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/load_client.hpp"

namespace penstock::bench {

/// Clients that send the next request as soon as a reply arrives. The same load drives a daemon, an echo and a
/// hand-written server, so that ratios between them are fair.
struct closed_loop_settings {
  std::string endpoint;
  bool hello = true;  ///< the server is a daemon: send HELLO and connect to the shard that it names
  std::uint32_t pipeline = 0;
  std::uint32_t pipelines = 1;  ///< client n sends to pipeline + n % pipelines
  std::size_t floats = 64;      ///< of a frame
  std::uint32_t frames = 1;     ///< of a request
  std::size_t clients = 1;
  std::size_t in_flight = 1;  ///< of each client
};

class closed_loop_thread;

/// Runs such clients on up to a quarter of the machine's cores. Connections stay open between runs.
class closed_loop {
 public:
  /// Throws std::runtime_error if the daemon does not answer.
  explicit closed_loop(const closed_loop_settings& settings);
  ~closed_loop();
  closed_loop(closed_loop&& other) noexcept;
  closed_loop& operator=(closed_loop&&) = delete;

  /// Sends for `span`, then waits for what is in flight. Latencies are those of the first 100,000 requests of each
  /// thread. Throws std::runtime_error on a reply that is not the expected RESULT (or echo), and if none arrives for
  /// 20 s.
  load_result run(std::chrono::milliseconds span);

 private:
  std::vector<std::unique_ptr<closed_loop_thread>> threads_;
};

/// Closed loops that run in turns: every contender once, then every contender again. The first is the limit of the
/// others.
class comparison {
 public:
  void add(std::string name, const closed_loop_settings& settings);
  /// Each contender once, not counted.
  void warm_up(std::chrono::milliseconds span);
  /// Each contender once.
  void turn(std::chrono::milliseconds span);

  /// By contender: "requests_per_second", "latency_p50_us", "latency_p99_us" and "of_limit" (throughput relative to the
  /// first contender in the same turn), each a spread; and "turns" with the first two turn by turn.
  [[nodiscard]] nlohmann::ordered_json figures() const;
  /// Throughput of `name` relative to `reference`, turn by turn.
  [[nodiscard]] std::vector<double> throughput_ratios(const std::string& name, const std::string& reference) const;
  /// p50 latency of `name` relative to `reference`, turn by turn.
  [[nodiscard]] std::vector<double> latency_ratios(const std::string& name, const std::string& reference) const;

 private:
  struct contender {
    std::string name;
    closed_loop loop;
    std::vector<load_result> results;
  };

  [[nodiscard]] std::vector<double> values(const std::string& name, double load_result::*member) const;

  std::vector<contender> contenders_;
};

}  // namespace penstock::bench
