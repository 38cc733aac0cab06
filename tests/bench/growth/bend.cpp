#include "tests/bench/growth/bend.hpp"

#include <algorithm>
#include <cstddef>

namespace penstock::bench {

std::optional<double> bend_of(const std::vector<double>& x, const std::vector<double>& y, expectation hoped) {
  double most = 0;
  for (std::size_t at = 1; at < std::min(x.size(), y.size()); ++at) {
    most = std::max(most, y[at - 1]);
    const double bound = hoped == expectation::grows ? y[at - 1] * (1 + (x[at] / x[at - 1] - 1) / 2) : most * 2 / 3;
    if (y[at] < bound) {
      return x[at];
    }
  }
  return std::nullopt;
}

}  // namespace penstock::bench
