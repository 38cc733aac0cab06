#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// The limits of the link: copies by size, direction and kind of host memory, a kernel that reads and writes mapped
/// memory, and groups of small pieces; by bare CUDA calls. Throws no_gpu where there is none.
[[nodiscard]] nlohmann::ordered_json run_link(const bench_options& options);

}  // namespace penstock::bench
