#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/options.hpp"

namespace penstock::bench {

/// Every operator of the catalogue alone on the device, by the device's own clock, and in turn with it a copy of as
/// many bytes on the device. On the host, which has one thread, numpy and scipy do the same work in a process of their
/// own, and have to come to the same result. On CUDA there are batches beyond every cache as well, and cuFFT and
/// cuBLAS, called bare, do the same work, or a part of it that the row names; a call whose result doesn't agree, or
/// whose library isn't there, is left out, and the row says so.
[[nodiscard]] nlohmann::ordered_json run_operators(const bench_options& options);

}  // namespace penstock::bench
