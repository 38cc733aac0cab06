#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <latch>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "tests/bench/crowd.hpp"

namespace penstock::bench {

/// What became of the requests of all that pressed.
struct pressed {
  std::uint64_t sent = 0;
  std::uint64_t results = 0;
  std::uint64_t unanswered = 0;
  std::map<std::string, std::uint64_t> errors;  ///< the refused, by their code
  std::chrono::steady_clock::time_point begin;  ///< of the first
};

/// A crowd that may have to send more than one thread can: its clients are spread over up to a quarter of the machine's
/// cores. It is ready once it is made, and sends nothing yet.
class pressing {
 public:
  /// `settings` but for `before_sending` and `stop`.
  explicit pressing(const crowd_settings& settings);
  /// Whatever it does ends first.
  ~pressing();
  pressing(const pressing&) = delete;
  pressing& operator=(const pressing&) = delete;

  void go() { go_.count_down(); }
  /// Nothing leaves any more.
  void stop() { stop_.request_stop(); }
  /// Whether every reply is there, or no more is waited for; waits so long for it.
  [[nodiscard]] bool done_within(std::chrono::milliseconds wait) const;
  /// Once it is done. Throws what a crowd threw.
  [[nodiscard]] pressed outcome();

 private:
  std::stop_source stop_;
  std::latch go_{1};
  std::atomic<std::size_t> ready_{0};  // crowds that are; each adds itself, the constructor reads it
  std::vector<std::future<crowd_report>> crowds_;
};

}  // namespace penstock::bench
