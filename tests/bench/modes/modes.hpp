#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// The completion modes beside each other: results a second and the time of one request, of daemons with callbacks,
/// with polling, with polling again, and with `auto`. Two daemons alike differ from one start to the next, so that each
/// repeat starts all of them anew.
[[nodiscard]] nlohmann::ordered_json run_modes(const bench_options& options);

}  // namespace penstock::bench
