#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/convolution.hpp"
#include "kernels/fault.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// What may follow a convolution on a GPU: y becomes activation(y + bias), in place, for a batch of `frames` frames of
/// [filters, pixels]. `type` is f32, f16 or bf16, of y and of bias, which may be nullptr. Sums are in f32.
fault add_bias_and_activate(cudaStream_t stream, element_type type, convolution_activation activation, const void* bias,
                            void* y, std::int64_t frames, std::int64_t filters, std::int64_t pixels) noexcept;

/// Rounds or widens `count` numbers of f32, f16 or bf16 to another of these types. Added to the kernel_queue `stream`.
fault change_precision(void* stream, element_type from, element_type to, const void* input, void* output,
                       std::int64_t count) noexcept;

}  // namespace penstock
