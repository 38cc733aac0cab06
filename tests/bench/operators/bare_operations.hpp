#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/operation.hpp"

namespace penstock::bench {

/// Copies `bytes` from its input to its output, both on the device. nullptr in a build without CUDA.
[[nodiscard]] std::unique_ptr<operation> make_cuda_copy(std::size_t bytes);

/// cuFFT and nothing else: `rows` forward transforms from its input to its output. nullptr in a build without CUDA;
/// throws std::runtime_error where there is no cuFFT.
[[nodiscard]] std::unique_ptr<operation> make_bare_transform(std::int64_t length, std::int64_t rows,
                                                             bool complex_input);

}  // namespace penstock::bench
