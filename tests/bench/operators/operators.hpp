#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Every operator of the catalogue alone on the device, by the device's own clock, and in turn with it a copy of as
/// many bytes on the device. On the host, which has one thread, numpy and scipy do the same work in a process of their
/// own, and have to come to the same result; on CUDA cuFFT does the transform of a power spectrum alone.
[[nodiscard]] nlohmann::ordered_json run_operators(const bench_options& options);

}  // namespace penstock::bench
