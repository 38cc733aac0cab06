#include "tests/bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace penstock::bench {

double quantile(std::vector<double> values, double part) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(std::clamp(part, 0.0, 1.0) * static_cast<double>(values.size()));
  return values[rank < 1 ? 0 : static_cast<std::size_t>(rank) - 1];
}

spread spread_of(const std::vector<double>& values) {
  if (values.empty()) {
    return {};
  }
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  const double median = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return {median, sorted.front(), sorted.back()};
}

spread median_interval(const std::vector<double>& values) {
  constexpr double wrong = 0.05;
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  // Sum of the binomial probabilities that at most `outside` values lie on one side of the median.
  const auto count = static_cast<double>(sorted.size());
  double likely = std::pow(0.5, count);
  double all = likely;
  std::size_t outside = 0;
  while (2 * all <= wrong) {
    ++outside;
    likely *= (count - static_cast<double>(outside) + 1) / static_cast<double>(outside);
    all += likely;
  }
  const std::size_t place = outside == 0 ? 0 : outside - 1;
  const double median = spread_of(values).median;
  return sorted.empty() ? spread{} : spread{median, sorted[place], sorted[sorted.size() - 1 - place]};
}

std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> quotients;
  for (std::size_t at = 0; at < std::min(a.size(), b.size()); ++at) {
    quotients.push_back(a[at] / b[at]);
  }
  return quotients;
}

nlohmann::ordered_json to_json(const spread& values) {
  return {{"median", values.median}, {"least", values.least}, {"most", values.most}};
}

}  // namespace penstock::bench
