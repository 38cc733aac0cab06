#pragma once

#include <memory>

#include "tests/support/gate.hpp"

namespace penstock::testing {

/// Gates for CUDA device 0: kernels that spin on pinned memory. Everything they need is allocated and loaded here,
/// because doing that while a gate is shut may wait for the gate. Throws std::runtime_error.
[[nodiscard]] std::unique_ptr<gate_maker> make_cuda_gates();

}  // namespace penstock::testing
