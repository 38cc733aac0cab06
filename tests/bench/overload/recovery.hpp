#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "tests/bench/crowd.hpp"

namespace penstock::bench {

/// How a client that sends little saw an overload that lasted `from` … `to`, by its requests' own times.
struct recovery {
  double normal_us = 0;      ///< p90 before it
  double overloaded_us = 0;  ///< p50 during it
  /// From its end until the first of ten requests in a row that take at most twice the normal; -1: not seen.
  double seconds = -1;
  std::size_t after = 0;  ///< requests that were looked at after its end
};
[[nodiscard]] recovery recovery_of(std::vector<crowd_result> probes, std::chrono::nanoseconds from,
                                   std::chrono::nanoseconds to);

}  // namespace penstock::bench
