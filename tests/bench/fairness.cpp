#include <cstdio>
#include <vector>

#include "tests/bench/benchmarks.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
using nlohmann::ordered_json;

// Latency of eight clients beside a fair ninth and beside a flooding one, and throughput of the low priority while the
// high one is flooded: workloads.hpp, fairness_shape.
ordered_json run_fairness(const bench_options& options) {
  fairness_shape shape = shape_for(options.backend);
  shape.seconds = options.quick ? 1 : 10;
  const testing::daemon_process daemon(
      {options.backend, "callback", shape.configuration(), testing::free_tcp_endpoint()});
  const double capacity = capacity_of(daemon.endpoint(), shape);
  std::vector<fairness_run> runs;
  std::vector<priority_run> priorities;
  interleave(options, "fairness", [&](int repeat) {
    runs.push_back(measure_fairness(daemon.endpoint(), shape, capacity, static_cast<std::uint64_t>(repeat) + 1));
    priorities.push_back(measure_priority(daemon.endpoint(), shape));
  });
  std::vector<double> ratio;
  for (const fairness_run& each : runs) {
    ratio.push_back(each.p99_ratio());
  }
  ordered_json result = new_result("fairness", options, device_of(daemon.endpoint()));
  result.update({{"well_behaved_clients", well_behaved_clients},
                 {"max_frames", shape.max_frames},
                 {"streams", shape.streams},
                 {"load", shape.load},
                 {"capacity_per_second", capacity},
                 {"requests", runs.front().requests},
                 {"fair_p50_us", column(runs, &fairness_run::p50_us)},
                 {"fair_p99_us", column(runs, &fairness_run::p99_us)},
                 {"flooded_p50_us", column(runs, &fairness_run::flooded_p50_us)},
                 {"flooded_p99_us", column(runs, &fairness_run::flooded_p99_us)},
                 {"flood_per_second", column(runs, &fairness_run::flood_per_second)},
                 {"p99_ratio", to_json(spread_of(ratio))},
                 {"low_alone_per_second", column(priorities, &priority_run::alone_per_second)},
                 {"low_flooded_per_second", column(priorities, &priority_run::flooded_per_second)}});
  return result;
}

}  // namespace penstock::bench
