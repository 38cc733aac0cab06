#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_link gave, as Markdown.
[[nodiscard]] std::string link_tables(const nlohmann::ordered_json& result);
/// GB/s over the size of a copy, a chart for each direction.
[[nodiscard]] std::vector<chart> link_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
