#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What run_round_trip gave, as Markdown: the machine's facts, two tables, and where that stands beside the aims.
[[nodiscard]] std::string round_trip_tables(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
