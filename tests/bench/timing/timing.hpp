#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What timing costs: throughput of small requests with timing off, at its default and of every batch, through three
/// daemons that differ in nothing else, interleaved. Each repeat starts with another of the three.
[[nodiscard]] nlohmann::ordered_json run_timing(const bench_options& options);

}  // namespace penstock::bench
