#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_overlap gave, as Markdown.
[[nodiscard]] std::string overlap_tables(const nlohmann::ordered_json& result);
/// And drawn: speedup by the number of chunks.
[[nodiscard]] std::vector<chart> overlap_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
