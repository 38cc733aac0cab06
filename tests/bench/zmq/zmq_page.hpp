#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// What run_zmq gave, as Markdown.
[[nodiscard]] std::string zmq_tables(const nlohmann::ordered_json& result);
/// And drawn: messages a second and round trip by size.
[[nodiscard]] std::vector<chart> zmq_charts(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
