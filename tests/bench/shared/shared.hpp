#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Frames in memory that the client shares with the daemon: beside copies of pinned memory both ways, which they can't
/// beat, and beside the same client over ZeroMQ.
[[nodiscard]] nlohmann::ordered_json run_shared(const bench_options& options);

}  // namespace penstock::bench
