#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Full load for options.minutes: the daemon's resident memory, pinned memory and open files, every second. "passed" is
/// false in what comes back when they are not flat.
[[nodiscard]] nlohmann::ordered_json run_steady(const bench_options& options);

}  // namespace penstock::bench
