#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_completion gave, as Markdown.
[[nodiscard]] std::string completion_tables(const nlohmann::ordered_json& result);
/// Latency and rate over the payload, and the CPU time of a batch.
[[nodiscard]] std::vector<chart> completion_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
