#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/overload/memory_halves.hpp"

namespace penstock::bench {

/// What an overload must not do, of one run.
struct overload_outcome {
  std::uint64_t sent = 0;
  std::uint64_t unanswered = 0;  ///< of the sent
  std::uint64_t dropped = 0;     ///< by the daemon's count: accepted, then ended for a newer one
  std::uint64_t told = 0;        ///< that the clients heard of
  memory_halves memory;
  double margin_mib = 0;
  std::uint64_t probes_after = 0;  ///< requests of the client that sends little, after the overload
  double recovery_s = -1;          ///< -1: not seen
};

/// What it did nevertheless, each with its figures; empty when all holds.
[[nodiscard]] std::vector<std::string> complaints_of(const overload_outcome& run);

}  // namespace penstock::bench
