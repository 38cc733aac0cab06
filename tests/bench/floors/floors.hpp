#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What each ratio must reach: {"margin": 0.4, "floors": {"NAME": 0.5, …}}. `margin` is the part of a floor that noise
/// and another machine may take away. The one in use is wide, because 1 MiB over tcp from one client reaches 0.93 of
/// the echo on one machine of docs/benchmarks.md and 0.68 on the other: the gate finds what has become slow by half,
/// not by a tenth.
///
/// A readable line for each ratio below its floor less the margin, for each floor without a ratio and for each ratio
/// without a floor; empty when all is well. Throws nlohmann::json::exception when `floors` is something else.
[[nodiscard]] std::vector<std::string> below_floors(const std::map<std::string, double>& ratios,
                                                    const nlohmann::ordered_json& floors);

}  // namespace penstock::bench
