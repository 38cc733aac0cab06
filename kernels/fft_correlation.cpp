#include "kernels/fft_correlation.hpp"

#include <algorithm>

#include "kernels/vector_clones.hpp"

namespace penstock {
namespace {

// Everything goes through forward transforms. Of complex rows, z = conj(F(conj Z)) / L. Of real rows, with the Hartley
// transform g[k] = Re Z[k] - Im Z[k] of a real z, z[i] = (Re G[i] - Im G[i]) / L, G = F(g) (R. N. Bracewell, J. Opt.
// Soc. Am. 73, 1983). The 1 / L stands in the template's spectrum.

PENSTOCK_VECTOR_CLONES void scale(float* values, std::size_t count, float by) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] *= by;
  }
}

/// g of Z = X conj(H); `length` is even.
PENSTOCK_VECTOR_CLONES void multiply_real(const float* __restrict x, const float* __restrict h, float* __restrict g,
                                          std::size_t length) {
  const std::size_t half = length / 2;
  for (std::size_t k = 0; k <= half; ++k) {
    const float re = x[2 * k] * h[2 * k] + x[2 * k + 1] * h[2 * k + 1];
    const float im = x[2 * k + 1] * h[2 * k] - x[2 * k] * h[2 * k + 1];
    g[k] = re - im;
  }
  for (std::size_t k = 1; k < half; ++k) {
    const float re = x[2 * k] * h[2 * k] + x[2 * k + 1] * h[2 * k + 1];
    const float im = x[2 * k + 1] * h[2 * k] - x[2 * k] * h[2 * k + 1];
    g[length - k] = re + im;
  }
}

/// z from G, the first `count` of `length`.
PENSTOCK_VECTOR_CLONES void read_real(const float* __restrict spectrum, float* __restrict out, std::size_t length,
                                      std::size_t count) {
  const std::size_t direct = std::min(count, length / 2 + 1);
  for (std::size_t i = 0; i < direct; ++i) {
    out[i] = spectrum[2 * i] - spectrum[2 * i + 1];
  }
  for (std::size_t i = direct; i < count; ++i) {
    out[i] = spectrum[2 * (length - i)] + spectrum[2 * (length - i) + 1];
  }
}

/// conj(Z) = conj(X) H.
PENSTOCK_VECTOR_CLONES void multiply_complex(const float* __restrict x, const float* __restrict h,
                                             float* __restrict out, std::size_t length) {
  for (std::size_t k = 0; k < length; ++k) {
    out[2 * k] = x[2 * k] * h[2 * k] + x[2 * k + 1] * h[2 * k + 1];
    out[2 * k + 1] = x[2 * k] * h[2 * k + 1] - x[2 * k + 1] * h[2 * k];
  }
}

PENSTOCK_VECTOR_CLONES void read_conjugate(const float* __restrict in, float* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = in[2 * i];
    out[2 * i + 1] = -in[2 * i + 1];
  }
}

/// Values of an array rounded up, so that the next one behind it is aligned too.
std::size_t space_for(std::size_t values) noexcept {
  constexpr std::size_t step = fft_plan::alignment / sizeof(float);
  return (values + step - 1) / step * step;
}

}  // namespace

fft_correlation::fft_correlation(std::int64_t length, bool complex_samples)
    : length_{static_cast<std::size_t>(length)}, complex_{complex_samples}, transform_{length, complex_samples} {}

std::size_t fft_correlation::sample_space() const noexcept {
  return space_for(complex_ ? 2 * length_ : length_);
}

std::size_t fft_correlation::spectrum_space() const noexcept {
  return space_for(2 * bins());
}

void fft_correlation::transform_template(float* samples, float* of_template) const noexcept {
  transform_.execute(samples, of_template);
  scale(of_template, 2 * bins(), 1.0F / static_cast<float>(length_));
}

void fft_correlation::run(float* samples, float* spectrum, const float* of_template, float* out,
                          std::size_t count) const noexcept {
  transform_.execute(samples, spectrum);
  if (complex_) {
    multiply_complex(spectrum, of_template, samples, length_);
    transform_.execute(samples, spectrum);
    read_conjugate(spectrum, out, count);
  } else {
    multiply_real(spectrum, of_template, samples, length_);
    transform_.execute(samples, spectrum);
    read_real(spectrum, out, length_, count);
  }
}

aligned_floats::aligned_floats(std::size_t count)
    : pieces_((count * sizeof(float) + sizeof(piece) - 1) / sizeof(piece)) {}

}  // namespace penstock
