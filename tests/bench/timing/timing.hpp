#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What timing costs: throughput of small requests with event timing off, at its default and of every batch, with a
/// scraper of metrics and with a reader of the timeline, through one daemon and one connection, in short turns. And
/// what the shard pays for what it keeps always, by itself.
[[nodiscard]] nlohmann::ordered_json run_timing(const bench_options& options);

}  // namespace penstock::bench
