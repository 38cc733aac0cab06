#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_submit gave, as Markdown.
[[nodiscard]] std::string submit_tables(const nlohmann::ordered_json& result);
/// CPU time over the number of kernels.
[[nodiscard]] std::vector<chart> submit_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
