#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What run_timing gave, as Markdown.
[[nodiscard]] std::string timing_tables(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
