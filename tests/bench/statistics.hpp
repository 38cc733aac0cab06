#pragma once

#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// Median and range of a repeated measurement.
struct spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

/// The quantile by nearest rank: always one of the values. `part` is 0 to 1. 0 if there are no values.
[[nodiscard]] double quantile(std::vector<double> values, double part);
/// The median of an even number of values is the mean of the middle two. All 0 if there are no values.
[[nodiscard]] spread spread_of(const std::vector<double>& values);
/// The median and its 95 % confidence interval by order statistics. With fewer than six values: the whole range.
[[nodiscard]] spread median_interval(const std::vector<double>& values);
/// a[i] / b[i], as many as the shorter has: values of one repeat see the same state of the machine.
[[nodiscard]] std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b);

/// {"median": …, "least": …, "most": …}
[[nodiscard]] nlohmann::ordered_json to_json(const spread& values);

}  // namespace penstock::bench
