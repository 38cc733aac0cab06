#pragma once

#include <string>

namespace penstock::bench {

/// What every benchmark is asked.
struct bench_options {
  std::string backend = "host";
  int repeats = 5;      ///< interleaved: every contender once, then every contender again
  double minutes = 10;  ///< of what runs for long
  bool quick = false;   ///< shorter runs: to see that it works, not for figures
};

}  // namespace penstock::bench
