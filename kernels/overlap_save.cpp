#include "kernels/overlap_save.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/operator_checks.hpp"

namespace penstock {
namespace {

/// Relative operations of a block: two transforms, and the passes around them.
double cost_of_block(std::int64_t length) {
  const auto n = static_cast<double>(length);
  return n * (std::log2(n) + 3.0);
}

}  // namespace

sum_method parse_sum_method(const parameters& settings) {
  return static_cast<sum_method>(parse_choice(settings, "method", {"auto", "direct", "fft"}));
}

overlap_save_blocks plan_overlap_save(std::int64_t results, std::int64_t taps, std::int64_t one_block) {
  overlap_save_blocks best;
  double min_cost = std::numeric_limits<double>::infinity();
  for (const std::int64_t odd : {1, 3, 5, 9, 15}) {
    for (std::int64_t length = 16 * odd; length < 32 * (one_block + 16); length *= 2) {
      const bool whole = length >= one_block;
      const std::int64_t step = whole ? results : length - (taps - 1);
      if (step <= 0) {
        continue;
      }
      const std::int64_t count = (results + step - 1) / step;
      const double cost = static_cast<double>(count) * cost_of_block(length);
      if (cost < min_cost) {
        min_cost = cost;
        best = {.length = length, .step = step, .count = count, .operations = cost};
      }
    }
  }
  return best;
}

}  // namespace penstock
