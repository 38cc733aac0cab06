#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What a thread of its own for submitting would cost and save: batches of `bytes` with one kernel and an event,
/// submitted by the thread that waits for them, or handed to another. Rows of {"way", "cpu_us", "until_done_us",
/// "batches_per_second"}: the handing thread's own time a batch, one batch alone from there until its event is seen,
/// and a batch on each stream all the time.
[[nodiscard]] nlohmann::ordered_json measure_hand_over(std::size_t bytes, const std::vector<bare_stream>& on,
                                                       const bench_options& options);

}  // namespace penstock::bench
