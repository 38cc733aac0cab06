#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Latency of one request at a time and throughput with 32 in flight, for 256 B to 1 MiB, through a raw ROUTER/DEALER
/// echo and through the daemon in both completion modes: interleaved in one run, median and spread of the repeats.
[[nodiscard]] nlohmann::ordered_json run_round_trip(const bench_options& options);

}  // namespace penstock::bench
