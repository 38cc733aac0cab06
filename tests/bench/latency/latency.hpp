#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Latency of 4 KiB requests that leave at random times (open loop, Poisson), counted from the time at which each was
/// meant to leave, at 10 to 95 % of what the daemon can do; beside a raw echo at the same rates. And one request on an
/// idle daemon beside the echo's round trip and a bare batch on the device.
[[nodiscard]] nlohmann::ordered_json run_latency(const bench_options& options);

}  // namespace penstock::bench
