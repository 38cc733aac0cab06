#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_ring gave, as Markdown.
[[nodiscard]] std::string shared_tables(const nlohmann::ordered_json& result);
/// And drawn: the copy by size, and beside it what a slot and a completion cost whatever their size.
[[nodiscard]] std::vector<chart> shared_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
