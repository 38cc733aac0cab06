#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace penstock::bench {

// The passes of a power spectrum around its transform, written as plainly as they can be. They enqueue; pointers are on
// the device and aligned to 16 bytes.

/// output = weights · input for each of `rows` rows of `floats`, a multiple of 4; real and imaginary parts have a
/// weight each.
cudaError_t launch_weights(cudaStream_t on, const float* input, const float* weights, float* output,
                           std::int64_t floats, std::int64_t rows) noexcept;
/// output[i] = |spectra[i]|² · scale, and that in decibels, at least -200, when `decibels`.
cudaError_t launch_powers(cudaStream_t on, const float* spectra, float* output, std::int64_t bins, float scale,
                          bool decibels) noexcept;
/// Does nothing.
cudaError_t launch_nothing(cudaStream_t on) noexcept;

}  // namespace penstock::bench
