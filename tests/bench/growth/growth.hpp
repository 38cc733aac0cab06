#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// How cost grows with the number of clients (1 to 1,000), of pipelines (1 to 64), with the size of frames (64 B to
/// 64 MiB), the number of streams (1 to 16), of shards (1 to 4) and of stages (1 to 16); beside a raw echo where one is
/// a measure.
[[nodiscard]] nlohmann::ordered_json run_growth(const bench_options& options);

}  // namespace penstock::bench
