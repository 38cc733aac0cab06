#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// What overlapping copies with work gains, and how much of what bare CUDA gains the daemon keeps. The same 64 MiB go
/// through the same kernel, tuned to take as long as a copy: on the default stream from pageable and from pinned
/// memory; in 1 … 32 chunks over 8 streams by bare CUDA; the same chunks through the daemon's core, and through the
/// whole daemon over ZeroMQ. All interleaved in one run. On the host the streams of the device seam stand for CUDA's.
[[nodiscard]] nlohmann::ordered_json run_overlap(const bench_options& options);

}  // namespace penstock::bench
