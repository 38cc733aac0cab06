#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/iir.hpp"

namespace penstock {

/// A cascade along one lane, some steps at a time: within a block of steps a section's outputs are a sum of its inputs
/// and of the state before the block, each times a fixed column of numbers (the impulse response from where it enters),
/// so that they are taken side by side and only blocks wait for each other (C. S. Burrus, Block realization of digital
/// filters, IEEE Trans. Audio Electroacoust. 20, 1972).
class iir_blocks_host {
 public:
  static constexpr std::size_t steps = 8;

  explicit iir_blocks_host(std::span<const iir_section> sections);

  /// Filters as many whole blocks as there are, up to the first that holds a NaN or an infinity: those must not reach
  /// the outputs before them. `stride` is in floats; `state` is sections × 2. Returns the steps done.
  std::int64_t run(const float* input, float* output, std::int64_t count, std::int64_t stride,
                   double* state) const noexcept;

  using block = double __attribute__((vector_size(steps * sizeof(double))));
  struct section {
    block by_input[steps];
    block by_state[2];
    iir_section coefficients;
  };

 private:
  std::vector<section> sections_;
};

}  // namespace penstock
