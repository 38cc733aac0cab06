#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What flood.hpp describes, over and over: how long the eight wait beside a fair ninth and beside one that floods, and
/// how far low priority comes while high priority is flooded. The host has one worker, which leaves a core for the
/// daemon and the clients.
[[nodiscard]] nlohmann::ordered_json run_fairness(const bench_options& options);

}  // namespace penstock::bench
