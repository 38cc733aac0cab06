#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Takes the first GPU for this thread and says what it is: backend, name, detail. Throws no_gpu where there is none,
/// or where the options ask for another backend.
[[nodiscard]] nlohmann::ordered_json use_gpu(const bench_options& options);

}  // namespace penstock::bench
