#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/operation.hpp"

namespace penstock::bench {

// Operations of bare CUDA and cuFFT, on the current device. Those with a transform throw std::runtime_error where there
// is no cuFFT, or it can't plan.

/// Rows that are transformed together.
struct transform_rows {
  std::int64_t length = 0;
  std::int64_t count = 0;
  bool complex = false;

  [[nodiscard]] std::int64_t bins() const noexcept { return complex ? length : length / 2 + 1; }
  [[nodiscard]] std::size_t sample_bytes() const noexcept {
    return static_cast<std::size_t>(count * length) * (complex ? 2 : 1) * sizeof(float);
  }
  [[nodiscard]] std::size_t spectrum_bytes() const noexcept {
    return static_cast<std::size_t>(count * bins()) * 2 * sizeof(float);
  }
};

/// Copies `bytes` from its input to its output.
[[nodiscard]] std::unique_ptr<operation> make_cuda_copy(std::size_t bytes);
/// Launches a kernel that does nothing.
[[nodiscard]] std::unique_ptr<operation> make_empty_launch();
/// cuFFT and nothing else: from its input to its output.
[[nodiscard]] std::unique_ptr<operation> make_bare_transform(const transform_rows& rows);
/// The transform between one pass before it, which weighs the input by a Hann window, and one behind it, from the bins
/// to their powers; each over the whole batch. Length: a multiple of 4.
[[nodiscard]] std::unique_ptr<operation> make_bare_powers(const transform_rows& rows, bool decibels);
/// cuFFT forward and back, of these samples instead of its input; the output is `length` times the samples.
[[nodiscard]] std::unique_ptr<operation> make_there_and_back(const transform_rows& rows,
                                                             const std::vector<float>& samples);

}  // namespace penstock::bench
