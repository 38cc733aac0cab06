#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_steady gave, as Markdown.
[[nodiscard]] std::string steady_tables(const nlohmann::ordered_json& result);
/// And drawn: memory and open files over the time.
[[nodiscard]] std::vector<chart> steady_charts(const nlohmann::ordered_json& result);
/// The aim that it speaks of.
[[nodiscard]] std::vector<aim> steady_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
