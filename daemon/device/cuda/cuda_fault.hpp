#pragma once

#include <cuda_runtime_api.h>

#include "kernels/fault.hpp"

namespace penstock {

/// The error's CUDA name as a fault; none for cudaSuccess. After `learn_fault_names` it makes no CUDA call, so that a
/// stream callback may use it.
fault fault_of(cudaError_t error) noexcept;

/// Reads every error's name once. A device calls it when it is opened.
void learn_fault_names();

/// Whether the error leaves the process's context unusable, so that every later call fails with it too.
[[nodiscard]] bool is_sticky(cudaError_t error) noexcept;

}  // namespace penstock
