#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_overlap gave, as Markdown.
[[nodiscard]] std::string overlap_tables(const nlohmann::ordered_json& result);
/// And drawn: speedup by the number of chunks.
[[nodiscard]] std::vector<chart> overlap_charts(const nlohmann::ordered_json& result);
/// The aims that it speaks of.
[[nodiscard]] std::vector<aim> overlap_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
