#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What run_devices gave, as Markdown.
[[nodiscard]] std::string devices_tables(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
