#pragma once

#include <chrono>
#include <string>

namespace penstock::bench {

/// What every benchmark is asked.
struct bench_options {
  std::string backend = "host";
  int repeats = 5;      ///< interleaved: every contender once, then every contender again
  double minutes = 10;  ///< of what runs for long
  bool quick = false;   ///< shorter runs: to see that it works, not for figures
  int turn_ms = 0;      ///< of one contender in one repeat, where contenders take turns; 0: as `quick` says

  [[nodiscard]] std::chrono::milliseconds turn() const noexcept {
    return std::chrono::milliseconds{turn_ms != 0 ? turn_ms : quick ? 100 : 1000};
  }
};

}  // namespace penstock::bench
