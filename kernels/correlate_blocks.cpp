#include "kernels/correlate_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock {
namespace {

/// Operations of a block, in no unit: two transforms, and the passes around them.
double cost_of_block(std::int64_t length) {
  const auto n = static_cast<double>(length);
  return n * (std::log2(n) + 3.0);
}

/// A transform over the whole row. Where the samples that it covers begin and end with zeros, a wrap from the one end
/// onto the other meets zeros only.
std::int64_t least_length_for_one_block(const correlate_settings& settings) {
  const std::int64_t covered = settings.results + settings.template_length - 1;
  const std::int64_t before = -settings.start();
  const std::int64_t behind = covered - before - settings.length;
  return covered - std::min(before, behind);
}

}  // namespace

correlate_blocks plan_correlate_blocks(const correlate_settings& settings) {
  return plan_correlate_blocks(settings.results, settings.template_length, least_length_for_one_block(settings));
}

correlate_blocks plan_correlate_blocks(std::int64_t results, std::int64_t taps, std::int64_t one_block) {
  correlate_blocks best;
  double least_cost = std::numeric_limits<double>::infinity();
  for (const std::int64_t odd : {1, 3, 5, 9, 15}) {
    for (std::int64_t length = 16 * odd; length < 32 * (one_block + 16); length *= 2) {
      const bool whole = length >= one_block;
      const std::int64_t step = whole ? results : length - (taps - 1);
      if (step <= 0) {
        continue;
      }
      const std::int64_t count = (results + step - 1) / step;
      const double cost = static_cast<double>(count) * cost_of_block(length);
      if (cost < least_cost) {
        least_cost = cost;
        best = {.length = length, .step = step, .count = count, .operations = cost};
      }
    }
  }
  return best;
}

}  // namespace penstock
