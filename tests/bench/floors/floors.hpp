#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What each ratio must reach: {"margin": 0.15, "floors": {"NAME": 0.5, …}}. `margin` is the part of a floor that noise
/// may take away.
///
/// A readable line for each ratio below its floor less the margin, for each floor without a ratio and for each ratio
/// without a floor; empty when all is well. Throws nlohmann::json::exception when `floors` is something else.
[[nodiscard]] std::vector<std::string> below_floors(const std::map<std::string, double>& ratios,
                                                    const nlohmann::ordered_json& floors);

}  // namespace penstock::bench
