#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What a callback that holds CUDA's thread on one stream does to the completions of the others: batches at a steady
/// pace, latency from the time each was due, for each way of telling the host. Throws no_gpu where there is none.
[[nodiscard]] nlohmann::ordered_json run_isolation(const bench_options& options);

}  // namespace penstock::bench
