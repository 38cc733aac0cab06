#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_overload gave, as Markdown.
[[nodiscard]] std::string overload_tables(const nlohmann::ordered_json& result);
/// And drawn: the daemon's memory over the overload, a drawing for each case and a line for each repeat.
[[nodiscard]] std::vector<chart> overload_charts(const nlohmann::ordered_json& result);
/// The aims that it speaks of: of the runs in which more was sent than the daemon can do.
[[nodiscard]] std::vector<aim> overload_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
