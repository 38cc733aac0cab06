#pragma once

#include <vector>

#include "tests/bench/operators/bare_calls.hpp"

namespace penstock::bench {

/// cuFFT beside an operator that transforms: alone, and for a power spectrum between plain passes as well. Throws
/// std::runtime_error where there is no cuFFT.
[[nodiscard]] std::vector<bare_counterpart> cufft_counterparts(const operator_case& what);

}  // namespace penstock::bench
