#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Throughput of a pipeline that computes much and moves little, through daemons on one device, on two, and so on in
/// powers of two as far as there are devices; each device has its own shard, and the clients go where WELCOME sends
/// them. The host backend is one device: then there is one row, and nothing to compare.
[[nodiscard]] nlohmann::ordered_json run_devices(const bench_options& options);

}  // namespace penstock::bench
