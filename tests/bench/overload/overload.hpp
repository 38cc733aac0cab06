#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Twice as many requests as the daemon can do, for some seconds, where the device is scarce and where the messages are
/// many: whether every one is answered, what the daemon's memory does, and how long afterwards latency is as it was
/// before. "passed" is false, and stderr says why, when a request has no answer, memory grows, or no recovery is seen.
[[nodiscard]] nlohmann::ordered_json run_overload(const bench_options& options);

}  // namespace penstock::bench
