#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_modes gave, as Markdown.
[[nodiscard]] std::string modes_tables(const nlohmann::ordered_json& result);
/// And drawn: `auto` beside each of the others, by payload.
[[nodiscard]] std::vector<chart> modes_charts(const nlohmann::ordered_json& result);
/// The aims that it speaks of.
[[nodiscard]] std::vector<aim> modes_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
