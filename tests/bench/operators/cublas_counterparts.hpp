#pragma once

#include <memory>
#include <vector>

#include "tests/bench/operators/bare_calls.hpp"
#include "tests/bench/operators/cublas.hpp"

namespace penstock::bench {

/// cuBLAS beside an operator whose arithmetic, or a part of it over the same bytes, is a call or two of it. Throws
/// std::runtime_error when the device has no memory for what they need.
[[nodiscard]] std::vector<bare_counterpart> cublas_counterparts(const std::shared_ptr<cublas>& library,
                                                                const operator_case& what);
/// Whether that would be any, if there were a library.
[[nodiscard]] bool has_cublas_counterpart(const operator_case& what);

}  // namespace penstock::bench
