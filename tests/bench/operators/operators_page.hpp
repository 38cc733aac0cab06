#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_operators gave, as Markdown.
[[nodiscard]] std::string operators_tables(const nlohmann::ordered_json& result);
/// Each case's speed beside whatever it was compared with: a chart each, in the order of the table's columns.
[[nodiscard]] std::vector<chart> operators_charts(const nlohmann::ordered_json& result);
/// The aims that it speaks of.
[[nodiscard]] std::vector<aim> operators_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
