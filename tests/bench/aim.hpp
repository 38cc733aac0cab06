#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// A ratio that Penstock is judged by, and what a run says of it.
struct aim {
  std::string what;
  std::string wanted;  ///< "≥ 90 %"
  std::string reached;  ///< median (least–most) of the turns' ratios, if the run has them; of several rows the farthest
  bool met = false;
  std::string held_back{};  ///< the decision that says by what, where it is not met: "0024-replies-client-by-client"
};

/// An aim that a run of its benchmark did not measure. It is not met.
[[nodiscard]] aim not_measured(std::string what, std::string wanted);

/// Every aim that one of the results speaks of, in a table that also says by which run, and whether that was a
/// short one; "" when there is none.
[[nodiscard]] std::string aims_table(const std::vector<nlohmann::ordered_json>& results);
/// The runs that have to speak of an aim and are not among these, as a sentence; "" when there is none.
[[nodiscard]] std::string missing_runs(const std::vector<nlohmann::ordered_json>& results);

/// Whether the run was on that backend.
[[nodiscard]] bool ran_on(const nlohmann::ordered_json& result, const char* backend);

}  // namespace penstock::bench
