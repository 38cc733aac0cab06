#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/bench/operators.hpp"

// What the CUDA sources of the operators benchmark share.

namespace penstock::bench {

/// A copy of the numbers in memory of the current device. Throws std::runtime_error.
[[nodiscard]] std::shared_ptr<const float> device_table(const std::vector<float>& numbers);

/// cuBLAS, loaded at run time.
class cublas;
/// On the current device. Loads the file that PENSTOCK_CUBLAS names, else the first that is in the loader's path,
/// CUDA_PATH or /usr/local/cuda. Throws std::runtime_error if there is none.
[[nodiscard]] std::shared_ptr<cublas> load_cublas();
/// cublasGetVersion: 130000 for 13.0.
[[nodiscard]] int version_of(const cublas& library);
/// For operators whose arithmetic, or a part of it over the same bytes, is a call or two of cuBLAS. Throws
/// std::runtime_error if the device's memory does not suffice.
[[nodiscard]] std::vector<library_call> cublas_calls(const std::shared_ptr<cublas>& library,
                                                     const operator_case& subject);
/// Whether there would be any.
[[nodiscard]] bool has_cublas_calls(const operator_case& subject);

/// cuBLASLt's product for `matmul`, whose factors have the input's type, without a bias and an activation: the fastest
/// of the eight algorithms that it proposes. Throws std::runtime_error.
[[nodiscard]] std::vector<library_call> cublaslt_calls(const operator_case& subject);
/// For convolutions without bias and activation, by the file that PENSTOCK_CUDNN names or libcudnn.so.9. Throws
/// std::runtime_error if there is none, or if the device's memory does not suffice.
[[nodiscard]] std::vector<library_call> cudnn_calls(const operator_case& subject);

// Simple passes around the transform of a power spectrum. They enqueue; pointers are on the device, aligned to 16
// bytes.

/// output = weights · input for each of `rows` rows of `floats`, a multiple of 4.
cudaError_t launch_weights(cudaStream_t stream, const float* input, const float* weights, float* output,
                           std::int64_t floats, std::int64_t rows) noexcept;
/// output[i] = |spectra[i]|² · scale; with `decibels` in dB, at least -200.
cudaError_t launch_powers(cudaStream_t stream, const float* spectra, float* output, std::int64_t bins, float scale,
                          bool decibels) noexcept;
cudaError_t launch_nothing(cudaStream_t stream) noexcept;

}  // namespace penstock::bench
