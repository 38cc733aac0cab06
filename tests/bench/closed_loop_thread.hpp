#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "tests/bench/closed_loop.hpp"
#include "tests/bench/submit_message.hpp"

namespace penstock::bench {

/// The clients that one thread drives. Thread: one at a time.
class closed_loop_thread {
 public:
  /// `first`: the number of its first client among all.
  closed_loop_thread(const closed_loop_settings& settings, std::size_t first);
  ~closed_loop_thread();
  closed_loop_thread(const closed_loop_thread&) = delete;
  closed_loop_thread& operator=(const closed_loop_thread&) = delete;

  struct outcome {
    std::uint64_t replies = 0;
    std::vector<double> latencies_us;
  };
  outcome run(std::chrono::milliseconds span);

 private:
  using clock = std::chrono::steady_clock;

  struct request {
    std::uint64_t id = 0;
    clock::time_point sent;
  };
  struct client {
    zmq::socket_t socket;
    submit_message* message = nullptr;
    std::vector<request> requests;  ///< in flight; an id's place is the id modulo their number
  };

  void connect(client& which);
  void greet(client& which);
  void send(client& which, std::size_t place);
  [[nodiscard]] std::size_t receive(client& which);
  void serve(client& which);
  void wait();

  closed_loop_settings settings_;
  zmq::context_t context_{1};
  std::vector<submit_message> messages_;  // by pipeline
  std::vector<client> clients_;
  int poll_ = -1;
  clock::time_point until_;
  std::size_t in_flight_ = 0;
  outcome outcome_;
};

}  // namespace penstock::bench
