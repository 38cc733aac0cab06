#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// The cases of what run_overload gave, in their order. Of runs from when there was one alone: that one, "compute".
[[nodiscard]] nlohmann::ordered_json overload_cases_of(const nlohmann::ordered_json& result);
/// How many times what the daemon can do a run of a case really sent.
[[nodiscard]] double times_capacity_of(const nlohmann::ordered_json& result, const nlohmann::ordered_json& of_case,
                                       const nlohmann::ordered_json& row);

}  // namespace penstock::bench
