#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_round_trip gave, as Markdown: the machine's facts, two tables, and where that stands beside the aims.
[[nodiscard]] std::string round_trip_tables(const nlohmann::ordered_json& result);
/// And drawn: latency and throughput by size.
[[nodiscard]] std::vector<chart> round_trip_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
