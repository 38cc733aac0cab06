#include "tests/bench/overload/recovery.hpp"

#include <algorithm>
#include <cstddef>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t in_a_row = 10;

}  // namespace

recovery recovery_of(std::vector<crowd_result> probes, std::chrono::nanoseconds from, std::chrono::nanoseconds to) {
  std::sort(probes.begin(), probes.end(),
            [](const crowd_result& a, const crowd_result& b) { return a.meant < b.meant; });
  std::vector<double> before;
  std::vector<double> during;
  for (const crowd_result& each : probes) {
    if (each.meant < from) {
      before.push_back(each.latency_us);
    } else if (each.meant < to) {
      during.push_back(each.latency_us);
    }
  }
  recovery made{quantile(before, 0.9), quantile(during, 0.5), -1, probes.size() - before.size() - during.size()};
  std::size_t good = 0;
  for (std::size_t at = 0; at < probes.size(); ++at) {
    const bool normal = probes[at].meant >= to && probes[at].latency_us <= 2 * made.normal_us;
    good = normal ? good + 1 : 0;
    if (good == in_a_row) {
      made.seconds = std::chrono::duration<double>(probes[at + 1 - in_a_row].meant - to).count();
      break;
    }
  }
  return made;
}

}  // namespace penstock::bench
