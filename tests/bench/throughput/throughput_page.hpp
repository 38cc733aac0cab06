#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_throughput gave, as Markdown: a table for each transport and number of clients, records, one at a time, and
/// where that stands beside the aims.
[[nodiscard]] std::string throughput_tables(const nlohmann::ordered_json& result);
/// And drawn: bytes a second by size, a chart for each transport and number of clients.
[[nodiscard]] std::vector<chart> throughput_charts(const nlohmann::ordered_json& result);
/// The aims that it speaks of.
[[nodiscard]] std::vector<aim> throughput_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
