#include "tests/bench/overload/memory_halves.hpp"

#include <algorithm>
#include <cstddef>

namespace penstock::bench {
namespace {

constexpr double allocators_share = 0.01;
constexpr double read_ahead_seconds = 0.05;

}  // namespace

memory_halves halves_of(const std::vector<double>& seconds, const std::vector<double>& mib, double span) {
  memory_halves made;
  for (std::size_t at = 0; at < seconds.size(); ++at) {
    if (seconds[at] >= 0 && seconds[at] < span) {
      double& half = seconds[at] < span / 2 ? made.first_mib : made.second_mib;
      half = std::max(half, mib[at]);
    }
  }
  return made;
}

double memory_margin_mib(double first_mib, double mib_per_second) {
  return allocators_share * first_mib + read_ahead_seconds * mib_per_second;
}

}  // namespace penstock::bench
