#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/client.hpp>

namespace penstock::bench {

/// A program that uses the C++ client library: its frames lie where they were written, each sent again as soon as its
/// result comes, and results are dropped unread. Through shared memory the frames lie in lent memory.
class lent_loop {
 public:
  struct settings {
    std::string endpoint;
    penstock::transport transport = penstock::transport::zmq;
    std::size_t bytes = 0;  ///< of a frame, and of its result
    std::size_t in_flight = 1;
    std::size_t pipeline = 0;  ///< among the daemon's
  };
  struct outcome_of_run {
    double requests_per_second = 0;
    double latency_p50_us = 0;
  };

  /// Throws connect_error, and std::runtime_error where the daemon shares no memory.
  explicit lent_loop(const settings& how);

  /// Sends for so long, then waits for what is in flight. Throws std::runtime_error on a request that fails, and on one
  /// that did not go the way that it was meant to.
  outcome_of_run run(std::chrono::milliseconds span);

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] std::span<const std::byte> frame(std::size_t number) const noexcept;
  void send(std::size_t number);
  void take(std::size_t number, outcome&& ended) noexcept;

  settings how_;
  std::string pipeline_;
  client client_;
  std::vector<lent_memory> lent_;
  std::vector<std::byte> own_;

  std::mutex mutex_;  // guards what follows: the thread of run() and the client's
  std::condition_variable rest_;
  clock::time_point until_;
  std::size_t in_flight_ = 0;
  std::vector<double> latencies_us_;
  std::optional<std::string> failure_;
};

}  // namespace penstock::bench
