#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_fairness gave, as Markdown.
[[nodiscard]] std::string fairness_tables(const nlohmann::ordered_json& result);
/// And drawn: p50 and p99 of the eight.
[[nodiscard]] std::vector<chart> fairness_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
