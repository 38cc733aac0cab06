#include "tests/bench/steady/slope.hpp"

#include <numeric>

namespace penstock::bench {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double gain_of(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 2) {
    return 0;
  }
  const double x_mean = mean(x);
  const double y_mean = mean(y);
  double products = 0;
  double squares = 0;
  for (std::size_t at = 0; at < x.size(); ++at) {
    products += (x[at] - x_mean) * (y[at] - y_mean);
    squares += (x[at] - x_mean) * (x[at] - x_mean);
  }
  return products / squares * (x.back() - x.front());
}

flatness flatness_of(const std::vector<double>& x, const std::vector<double>& y, double share, double room) {
  const auto warm = static_cast<std::ptrdiff_t>(x.size() / 5);
  const std::vector<double> later(y.begin() + warm, y.end());
  return {gain_of({x.begin() + warm, x.end()}, later), later.empty() ? room : share * mean(later) + room};
}

}  // namespace penstock::bench
