#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_isolation gave, as Markdown.
[[nodiscard]] std::string isolation_tables(const nlohmann::ordered_json& result);
/// p99 over the length of the hold, one chart for each kind of holder.
[[nodiscard]] std::vector<chart> isolation_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
