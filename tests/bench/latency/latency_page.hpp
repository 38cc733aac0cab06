#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_latency gave, as Markdown.
[[nodiscard]] std::string latency_tables(const nlohmann::ordered_json& result);
/// And drawn: p50 and p99 by load.
[[nodiscard]] std::vector<chart> latency_charts(const nlohmann::ordered_json& result);
/// The aims that it speaks of.
[[nodiscard]] std::vector<aim> latency_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
