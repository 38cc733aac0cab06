#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_timing gave, as Markdown.
[[nodiscard]] std::string timing_tables(const nlohmann::ordered_json& result);
/// And drawn: throughput by how many batches are timed.
[[nodiscard]] std::vector<chart> timing_charts(const nlohmann::ordered_json& result);
/// The aims that it speaks of.
[[nodiscard]] std::vector<aim> timing_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
