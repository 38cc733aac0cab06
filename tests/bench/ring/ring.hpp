#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What a slot of the ring and a node of the completion queue cost, in ns, on one thread and with a second thread that
/// drops or pushes, beside copying a payload into the slot. On the host backend's memory, without a daemon.
[[nodiscard]] nlohmann::ordered_json run_ring(const bench_options& options);

}  // namespace penstock::bench
