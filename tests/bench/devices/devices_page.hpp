#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/aim.hpp"
#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_devices gave, as Markdown.
[[nodiscard]] std::string devices_tables(const nlohmann::ordered_json& result);
/// And drawn: speedup by the number of devices.
[[nodiscard]] std::vector<chart> devices_charts(const nlohmann::ordered_json& result);
/// The aims that it speaks of.
[[nodiscard]] std::vector<aim> devices_aims(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
