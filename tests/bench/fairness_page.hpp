#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What run_fairness gave, as Markdown.
[[nodiscard]] std::string fairness_tables(const nlohmann::ordered_json& result);

}  // namespace penstock::bench
