#include "tests/bench/overload/overload_verdict.hpp"

#include <fmt/format.h>

namespace penstock::bench {

std::vector<std::string> complaints_of(const overload_outcome& run) {
  std::vector<std::string> made;
  if (run.unanswered > 0) {
    made.push_back(fmt::format("{} of {} requests had no answer", run.unanswered, run.sent));
  }
  if (run.told != run.dropped) {
    made.push_back(fmt::format("the daemon dropped {} requests and told of {}", run.dropped, run.told));
  }
  if (run.memory.first_mib <= 0 || run.memory.second_mib <= 0) {
    made.emplace_back("memory was not sampled in both halves");
  } else if (run.memory.second_mib > run.memory.first_mib + run.margin_mib) {
    made.push_back(
        fmt::format("memory went from {:.1f} MiB in the first half to {:.1f} in the second, beyond the "
                    "margin of {:.1f}",
                    run.memory.first_mib, run.memory.second_mib, run.margin_mib));
  }
  if (run.recovery_s < 0) {
    made.push_back(fmt::format("no recovery was seen in the {} requests after it", run.probes_after));
  }
  return made;
}

}  // namespace penstock::bench
