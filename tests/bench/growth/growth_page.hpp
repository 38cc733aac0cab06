#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_growth gave, as Markdown: a table for each series, and where it bends.
[[nodiscard]] std::string growth_tables(const nlohmann::ordered_json& result);
/// And drawn: a chart for each.
[[nodiscard]] std::vector<chart> growth_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
