#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Copies of one size after another, back to back: {"register_ms", "rows": [{"bytes", "ways": {NAME: {"in", "out",
/// "both"}}}]}, spreads of GB/s, with both at once each way. The GPU is chosen.
[[nodiscard]] nlohmann::ordered_json measure_whole_copies(const bench_options& options);

}  // namespace penstock::bench
