#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What each ratio must reach: {"margin": 0.3, "margins": {"NAME": 0.2, …}, "floors": {"NAME": 0.5, …}}. A margin is
/// the part of a floor that noise and another machine may take away; "margins", which may be missing, are for those
/// that differ more or less than the others.
///
/// Those in tests/bench/floors.json are of ten runs on two cores, which others may have used meanwhile. A floor is the
/// median of the runs' medians. Those deviate by 2 to 9 % of it, so that 30 % are more than three deviations; records
/// deviate by 11 %. One copy more of each frame in shared memory takes 27 % away, so its margin is narrower. The echo
/// of 1 MiB takes one of two paces when it is started, and the daemon has 0.9 or 2 times what it has: that floor is of
/// the quicker echo, with a wide margin.
///
/// A readable line for each ratio below its floor less the margin, for each floor without a ratio, and for each ratio
/// and each margin without a floor; empty when all is well. Throws nlohmann::json::exception when `floors` is something
/// else.
[[nodiscard]] std::vector<std::string> below_floors(const std::map<std::string, double>& ratios,
                                                    const nlohmann::ordered_json& floors);

}  // namespace penstock::bench
