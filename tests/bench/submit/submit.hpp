#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What enqueuing costs the thread that does it: one batch in each form, with one, four and eight kernels, and groups
/// of small pieces; by bare CUDA calls. Throws no_gpu where there is none.
[[nodiscard]] nlohmann::ordered_json run_submit(const bench_options& options);

}  // namespace penstock::bench
