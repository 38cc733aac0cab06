#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "tests/bench/submit_message.hpp"

namespace penstock::bench {

/// One run's figures.
struct load_result {
  double requests_per_second = 0;
  double p50_us = 0;
  double p99_us = 0;
  std::size_t results = 0;
};

/// A DEALER that keeps a number of SUBMITs of one size in flight, against a daemon or an echo alike.
class load_client {
 public:
  /// `floats` f32 values a request of pipeline `pipeline`, random; `hello`: greet the daemon first.
  /// `identity`: its routing id, "" for any.
  load_client(const std::string& endpoint, std::uint32_t pipeline, std::size_t floats, bool hello,
              const std::string& identity = "");

  /// Its requests have so long from now on.
  void limit_requests(std::chrono::nanoseconds timeout) noexcept { message_.set_timeout(timeout); }
  /// Its requests belong to a session from now on. Throws std::runtime_error when the daemon opens none.
  void open_session();
  /// Its frames lie there from now on, all in the same place.
  void share(const wire::shared_place& place);

  /// Keeps `in_flight` requests under way until `requests` replies are back or `limit` has passed.
  /// Throws std::runtime_error on a reply that is not a RESULT (or an echo) of the right size.
  load_result run(std::size_t in_flight, std::size_t requests, std::chrono::milliseconds limit);

 private:
  using clock = std::chrono::steady_clock;

  void greet();
  void send();
  void receive();

  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::dealer};
  submit_message message_;
  std::uint32_t pipeline_;
  bool shares_ = false;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_sequence_ = 0;
  bool in_session_ = false;
  std::vector<clock::time_point> sent_at_;  // by id modulo its size
  std::vector<double> latencies_us_;
};

}  // namespace penstock::bench
