#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

namespace penstock::bench {

/// Open-loop load: requests are sent at times that do not depend on replies, a Poisson process for each client.
struct open_loop_settings {
  std::string endpoint;
  std::uint32_t pipeline = 0;                  ///< its input is f32
  std::size_t floats = 0;                      ///< of a frame
  std::size_t clients = 8;                     ///< one connection each
  double rate = 1;                             ///< requests per second of each client
  std::chrono::nanoseconds span{};             ///< duration of the sending
  std::uint64_t seed = 1;                      ///< the same seed gives the same departure times
  bool hello = true;                           ///< send HELLO first; false for an echo
  std::chrono::milliseconds patience{20'000};  ///< longest wait for a reply since the previous one
  std::function<void()> before_sending{};      ///< called when all clients are connected; sending starts on return
  std::stop_token stop{};                      ///< nothing is sent after a stop request
};

/// One RESULT or echo.
struct open_loop_result {
  std::chrono::nanoseconds scheduled{};  ///< departure time, since the start of the run
  double latency_us = 0;
};

/// Latencies count from the scheduled departure, so that delays of a slow daemon or a slow client are included.
struct open_loop_report {
  std::vector<std::vector<double>> latencies_us;  ///< by client
  std::uint64_t refused = 0;                      ///< replies other than RESULT
  std::uint64_t sent = 0;
  std::uint64_t unanswered = 0;                 ///< sent requests without a reply when patience ended
  std::vector<open_loop_result> results;        ///< in order of arrival
  std::map<std::string, std::uint64_t> errors;  ///< refused requests by code
  std::chrono::steady_clock::time_point begin;  ///< start of the run

  /// Latencies of the first `clients` clients together.
  [[nodiscard]] std::vector<double> latencies_of_first(std::size_t clients) const;
};

/// Sends and waits for every reply, on the calling thread. Sends never block: requests that the server does not take
/// yet are queued here without a limit. Ends early if replies are due and none arrives within `patience`. Throws
/// std::runtime_error if the daemon does not answer HELLO or no request is answered.
[[nodiscard]] open_loop_report run_open_loop(const open_loop_settings& settings);
/// The same, and throws std::runtime_error if any request is unanswered.
[[nodiscard]] open_loop_report run_answered_open_loop(const open_loop_settings& settings);

struct open_loop_totals {
  std::uint64_t sent = 0;
  std::uint64_t refused = 0;
  std::uint64_t unanswered = 0;
  std::vector<open_loop_result> results;        ///< thread by thread
  std::map<std::string, std::uint64_t> errors;  ///< refused requests by code
  std::chrono::steady_clock::time_point begin;  ///< start of the first run
};

/// Open-loop load that may need several threads: the clients are spread over up to a quarter of the machine's cores.
/// The constructor connects; nothing is sent before `start`.
class open_loop_threads {
 public:
  /// `before_sending` and `stop` of the settings are not used.
  explicit open_loop_threads(const open_loop_settings& settings);
  /// Stops and waits for the threads.
  ~open_loop_threads();
  open_loop_threads(const open_loop_threads&) = delete;
  open_loop_threads& operator=(const open_loop_threads&) = delete;

  void start() { start_.count_down(); }
  /// Nothing is sent any more.
  void stop() { stop_.request_stop(); }
  /// Waits up to `wait` until every thread has ended. Returns whether they have.
  [[nodiscard]] bool done_within(std::chrono::milliseconds wait) const;
  /// Only when done. Rethrows what a thread threw.
  [[nodiscard]] open_loop_totals totals();

 private:
  std::stop_source stop_;
  std::latch start_{1};
  std::atomic<std::size_t> ready_{0};  // threads that are connected; written by them, read by the constructor
  std::vector<std::future<open_loop_report>> threads_;
};

}  // namespace penstock::bench
