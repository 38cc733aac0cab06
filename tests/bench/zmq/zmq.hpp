#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What ZeroMQ alone does on this machine, over tcp and ipc, for 64 B to 1 MiB: DEALER to ROUTER one way, and the round
/// trip of an echo.
[[nodiscard]] nlohmann::ordered_json run_zmq(const bench_options& options);

}  // namespace penstock::bench
