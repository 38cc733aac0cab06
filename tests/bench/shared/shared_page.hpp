#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_shared gave, as Markdown.
[[nodiscard]] std::string shared_tables(const nlohmann::ordered_json& result);
/// And drawn: rates and single requests by size.
[[nodiscard]] std::vector<chart> shared_charts(const nlohmann::ordered_json& result);
/// The aims that it speaks of.
[[nodiscard]] std::vector<aim> shared_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
