#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Requests a second by payload (64 B to 16 MiB) over tcp and ipc, from one client and from many; small records, 64 to
/// a request; and one request at a time: each through a raw ROUTER/DEALER echo, the daemon in both completion modes and
/// a server written by hand, with the same clients and as much in flight, interleaved.
[[nodiscard]] nlohmann::ordered_json run_throughput(const bench_options& options);

}  // namespace penstock::bench
