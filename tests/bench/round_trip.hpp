#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What the round-trip benchmark is asked to do.
struct round_trip_options {
  std::string backend = "host";
  int repeats = 5;
  bool quick = false;  ///< shorter runs: to see that it works, not for figures
};

/// Latency of one request at a time and throughput with 32 in flight, for 256 B to 1 MiB, through a raw ROUTER/DEALER
/// echo and through the daemon in both completion modes: interleaved in one run, median and spread of the repeats.
[[nodiscard]] nlohmann::ordered_json run_round_trip(const round_trip_options& options);

}  // namespace penstock::bench
