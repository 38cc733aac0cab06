#pragma once

#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// The middle and the ends of what was measured several times.
struct spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

/// The value below or at which this part (0 … 1) of the values lies: the smallest that is enough (nearest rank), so it
/// is always one of them. 0 when there are none.
[[nodiscard]] double quantile(std::vector<double> values, double part);
/// The median of an even number of values is the mean of the middle two. All 0 when there are none.
[[nodiscard]] spread spread_of(const std::vector<double>& values);
/// The median, and two of the values between which that of all that could be drawn lies, wrong in at most one of
/// twenty: the nearest two, as far from either end of the order, that are so sure. Fewer than six values have none; the
/// ends are the least and the most then.
[[nodiscard]] spread median_interval(const std::vector<double>& values);
/// One by one, a divided by b: as many as the shorter has. Pairs of one repeat have the machine's mood in common.
[[nodiscard]] std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b);

/// {"median": …, "least": …, "most": …}
[[nodiscard]] nlohmann::ordered_json to_json(const spread& of);
[[nodiscard]] spread spread_from(const nlohmann::ordered_json& json);

}  // namespace penstock::bench
