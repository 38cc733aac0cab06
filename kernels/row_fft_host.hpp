#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/fft_host.hpp"

namespace penstock {

/// A DFT of one row of any length in single precision, unnormalised.
///
/// A complex row of 2^19 elements or more, which no core's cache holds, goes in four steps if it is a matrix whose
/// sides are multiples of 8 and at most 8192 (D. H. Bailey, "FFTs in external or hierarchical memory", J.
/// Supercomputing 4, 1990). Any other goes to FFTW as a whole. Of a matrix each column is transformed, element (k, n)
/// is multiplied by exp(∓2πi · k · n / length), each row is transformed, and the matrix is written transposed. Eight
/// columns, and then eight rows, are in the cache at a time, so the elements go through memory twice.
///
/// Threads: as fft_plan. Arrays are aligned to fft_plan::alignment.
class row_fft {
 public:
  /// As fft_plan's.
  row_fft(std::int64_t length, fft_plan::kind transform, fft_plan::input after = fft_plan::input::overwritten);

  /// Floats of the scratch that `execute` overwrites.
  [[nodiscard]] std::size_t scratch_space() const noexcept;
  void execute(float* in, float* out, float* scratch) const noexcept;
  /// For an input that is kept.
  void execute(const float* in, float* out, float* scratch) const noexcept {
    execute(const_cast<float*>(in), out, scratch);
  }

 private:
  struct matrix {
    matrix(std::size_t rows, std::size_t columns, fft_plan::kind transform);

    std::size_t rows;
    std::size_t columns;
    fft_plan down;            ///< of columns, eight at once
    fft_plan across;          ///< of rows, eight at once
    aligned_floats twiddles;  ///< in the order of their use
  };

  std::optional<matrix> matrix_;   ///< of a row that goes in steps
  std::optional<fft_plan> whole_;  ///< of any other
};

}  // namespace penstock
