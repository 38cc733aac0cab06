#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/overload/overload_page.hpp"
#include "tests/bench/overload/overload_result.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

/// What all runs together say in which more was sent than the daemon can do.
struct summary {
  std::string offered;  // "compute 1.95 to 2.01 times, …": of all runs
  std::size_t all = 0;  // runs
  std::size_t rows = 0;
  std::uint64_t sent = 0;
  std::uint64_t unanswered = 0;
  double growth = 0;
  std::size_t flat = 0;
  std::size_t recovered = 0;
  double recovery_s = 0;
};

// Runs of before judged no growth: theirs must be within what the allocator does by itself.
bool is_flat(const ordered_json& row) {
  constexpr double allocators_share = 0.01;
  const double allowed = row.contains("margin_mib")
                             ? row.at("margin_mib").get<double>() / row.at("first_half_mib").get<double>()
                             : allocators_share;
  return row.at("resident_growth").get<double>() <= 1 + allowed;
}

void add(summary& to, const ordered_json& row) {
  to.sent += row.at("sent").get<std::uint64_t>();
  to.unanswered += row.at("unanswered").get<std::uint64_t>();
  to.growth = std::max(to.growth, row.at("resident_growth").get<double>());
  const double recovery = row.at("recovery_s").get<double>();
  to.recovery_s = std::max(to.recovery_s, recovery);
  to.recovered += recovery >= 0 ? 1U : 0U;
  to.flat += is_flat(row) ? 1U : 0U;
  ++to.rows;
}

summary summary_of(const ordered_json& result) {
  summary made;
  for (const ordered_json& each : overload_cases_of(result)) {
    std::vector<double> offered;
    for (const ordered_json& row : each.at("rows")) {
      offered.push_back(times_capacity_of(result, each, row));
      if (offered.back() > 1) {
        add(made, row);
      }
    }
    const spread of = spread_of(offered);
    made.all += offered.size();
    made.offered += fmt::format("{}{} {:.2f} times ({:.2f}–{:.2f})", made.offered.empty() ? "" : ", ",
                                each.at("name").get<std::string>(), of.median, of.least, of.most);
  }
  return made;
}

}  // namespace

std::vector<aim> overload_aims(const ordered_json& result) {
  const summary made = summary_of(result);
  if (made.rows == 0) {
    return {not_measured("overload: nothing lost, memory flat, latency again as before", "always")};
  }
  return {{"overload: requests without an answer", "none",
           fmt::format("{} of {}, in the {} of {} runs that had more than the capacity: {}", made.unanswered, made.sent,
                       made.rows, made.all, made.offered),
           made.unanswered == 0},
          {"overload: memory of the second half beside the first", "within 1 % and 50 ms of requests",
           fmt::format("{:.3f} times at most; within in {} of {}", made.growth, made.flat, made.rows),
           made.flat == made.rows},
          {"overload: latency again as before", "in every run",
           fmt::format("in {} of {}, after {:.0f} ms at most", made.recovered, made.rows, 1e3 * made.recovery_s),
           made.recovered == made.rows}};
}

}  // namespace penstock::bench
