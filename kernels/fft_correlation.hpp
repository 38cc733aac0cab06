#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/fft_plan.hpp"

namespace penstock {

/// Blocks of `length` samples against a template through the discrete Fourier transform, on the host:
///   z[i] = sum_n x[(i + n) mod length] · conj(h[n])
/// of real samples and a real template, or of complex ones. `length` is even.
///
/// Threads: any number at once, each with arrays of its own. All arrays are aligned to fft_plan::alignment.
class fft_correlation {
 public:
  fft_correlation(std::int64_t length, bool complex_samples);

  /// Floats of an array of samples, and of one for a spectrum, rounded up so that the next one behind it is aligned.
  [[nodiscard]] std::size_t sample_space() const noexcept;
  [[nodiscard]] std::size_t spectrum_space() const noexcept;

  /// From the template, continued by zeros, to the spectrum that `run` takes. Overwrites the samples.
  void transform_template(float* samples, float* of_template) const noexcept;
  /// The first `count` of z. Overwrites the samples and what was in `spectrum`.
  void run(float* samples, float* spectrum, const float* of_template, float* out, std::size_t count) const noexcept;

 private:
  [[nodiscard]] std::size_t bins() const noexcept { return complex_ ? length_ : length_ / 2 + 1; }

  std::size_t length_;
  bool complex_;
  fft_plan transform_;
};

/// Memory of an operation for such arrays, zeroed.
class aligned_floats {
 public:
  explicit aligned_floats(std::size_t count);

  [[nodiscard]] float* data() noexcept { return pieces_.empty() ? nullptr : pieces_.front().values; }
  [[nodiscard]] const float* data() const noexcept { return pieces_.empty() ? nullptr : pieces_.front().values; }

 private:
  struct alignas(fft_plan::alignment) piece {
    float values[fft_plan::alignment / sizeof(float)];
  };
  std::vector<piece> pieces_;
};

}  // namespace penstock
