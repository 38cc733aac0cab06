#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

namespace penstock::bench {

/// Well-behaved clients of one pipeline whose input is f32.
struct crowd_settings {
  std::string endpoint;
  std::uint32_t pipeline = 0;
  std::size_t floats = 0;                      ///< of a frame
  std::size_t clients = 8;                     ///< each a connection of its own
  double rate = 1;                             ///< requests a second of each client
  std::chrono::nanoseconds span{};             ///< how long requests leave
  std::uint64_t seed = 1;                      ///< the same seed gives each client the same departures again
  bool hello = true;                           ///< a daemon, which is greeted; an echo is not
  std::chrono::milliseconds patience{20'000};  ///< how long a reply is waited for since the one before it
  std::function<void()> before_sending{};      ///< called when all is ready; the span begins when it returns
  std::stop_token stop{};                      ///< once it is asked to, nothing leaves any more: neither late nor later
};

/// One RESULT (or echo).
struct crowd_result {
  std::chrono::nanoseconds meant{};  ///< when it was meant to leave, from the beginning
  double latency_us = 0;
};

/// How it went for each client. A request's latency runs from the time at which it was meant to leave: what a slow
/// daemon, or a slow client, makes late is counted.
struct crowd_report {
  std::vector<std::vector<double>> latencies_us;  ///< by client
  std::uint64_t refused = 0;                      ///< replies that were no RESULT
  std::uint64_t sent = 0;
  std::uint64_t unanswered = 0;                 ///< of the sent, when the patience ended
  std::vector<crowd_result> results;            ///< as they came
  std::map<std::string, std::uint64_t> errors;  ///< the refused, by their code
  std::chrono::steady_clock::time_point begin;  ///< the first request was meant to leave a little later

  /// Of the first `clients` together.
  [[nodiscard]] std::vector<double> of_first(std::size_t clients) const;
};

/// Sends at random times (a Poisson process for each client), whatever became of the earlier requests, and waits for
/// every reply. Requests that a server doesn't take yet are queued here, without a limit, so that a send never waits.
/// One thread. Ends early when replies are owed and none has come for as long as its patience lasts: the report says
/// how many. Throws std::runtime_error when the daemon doesn't answer HELLO, or no request is answered.
[[nodiscard]] crowd_report run_crowd(const crowd_settings& settings);
/// The same, but throws std::runtime_error when any request had no answer.
[[nodiscard]] crowd_report run_answered_crowd(const crowd_settings& settings);

}  // namespace penstock::bench
