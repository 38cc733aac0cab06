#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What run_overlap gave, as Markdown. `drawing`: where the page finds the drawn timeline; "" for none.
[[nodiscard]] std::string overlap_tables(const nlohmann::ordered_json& result, const std::string& drawing);

}  // namespace penstock::bench
