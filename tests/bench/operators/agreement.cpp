#include "tests/bench/operators/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace penstock::bench {

double difference_of(const std::vector<float>& made, const std::vector<float>& expected) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (made.size() != expected.size()) {
    return infinity;
  }
  double largest = 0;
  double difference = 0;
  for (std::size_t at = 0; at < made.size(); ++at) {
    if (!std::isfinite(made[at]) || !std::isfinite(expected[at])) {
      return infinity;
    }
    largest = std::max(largest, std::abs(static_cast<double>(expected[at])));
    difference = std::max(difference, std::abs(static_cast<double>(made[at]) - static_cast<double>(expected[at])));
  }
  return largest > 0 ? difference / largest : infinity;
}

std::vector<float> taken_from(const std::vector<float>& all, std::size_t first, std::size_t step, float scale) {
  std::vector<float> taken;
  taken.reserve(all.size() / step + 1);
  for (std::size_t at = first; at < all.size(); at += step) {
    taken.push_back(scale * all[at]);
  }
  return taken;
}

}  // namespace penstock::bench
