#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What each way of telling the host costs: latency of one batch (copy in, one kernel, copy out) at a time, batches a
/// second over eight streams, and the CPU time of both; by bare CUDA calls. Throws no_gpu where there is none.
[[nodiscard]] nlohmann::ordered_json run_completion(const bench_options& options);

}  // namespace penstock::bench
