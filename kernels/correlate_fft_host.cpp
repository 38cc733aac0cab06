#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/correlate.hpp"
#include "kernels/correlate_blocks.hpp"
#include "kernels/fft_plan.hpp"
#include "kernels/vector_clones.hpp"

namespace penstock {
namespace {

// Everything goes through forward transforms. Of complex rows, z = conj(F(conj Z)) / L. Of real rows, with the Hartley
// transform g[k] = Re Z[k] - Im Z[k] of a real z, z[i] = (Re G[i] - Im G[i]) / L, G = F(g) (R. N. Bracewell, J. Opt.
// Soc. Am. 73, 1983). The 1 / L stands in the template's spectrum.

/// (re, im) pairs of real values.
PENSTOCK_VECTOR_CLONES void widen(const float* __restrict in, float* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = in[i];
    out[2 * i + 1] = 0.0F;
  }
}

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

/// Memory for a transform, in pieces of its alignment.
struct alignas(fft_plan::alignment) aligned_piece {
  float values[fft_plan::alignment / sizeof(float)];
};

/// Block after block: copy, transform, multiply, transform, copy. The scratch holds a block's samples and its
/// spectrum, and the spectrum of a template that comes with the frames; that of a parameter is kept.
class correlate_fft_host final : public operation {
 public:
  explicit correlate_fft_host(correlate_settings settings)
      : settings_{std::move(settings)},
        blocks_{plan_correlate_blocks(settings_)},
        complex_{settings_.complex_output()},
        transform_{blocks_.length, complex_} {
    if (!settings_.coefficients.empty()) {
      std::vector<aligned_piece> samples(sample_space() * sizeof(float) / sizeof(aligned_piece));
      kept_spectrum_.resize(spectrum_space() * sizeof(float) / sizeof(aligned_piece));
      transform_template(settings_.coefficients.data(), samples.front().values, kept_spectrum_.front().values);
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (sample_space() + 2 * spectrum_space()) * sizeof(float);
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto rows_a_template = static_cast<std::size_t>(settings_.rows_a_template(arguments.extent));
    const std::size_t in_step = static_cast<std::size_t>(settings_.length) * (settings_.complex_signal ? 2 : 1);
    const std::size_t out_step = static_cast<std::size_t>(settings_.results) * (complex_ ? 2 : 1);
    auto* const samples = static_cast<float*>(arguments.scratch);
    float* const spectrum = samples + sample_space();
    float* const of_frame = spectrum + spectrum_space();
    const float* const of_template = kept_spectrum_.empty() ? of_frame : kept_spectrum_.front().values;
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::size_t row = 0; row < rows; ++row, in += in_step, out += out_step) {
      if (kept_spectrum_.empty() && row % rows_a_template == 0) {
        const auto* const templates = static_cast<const float*>(arguments.inputs[1]);
        transform_template(templates + row / rows_a_template * template_values(), samples, of_frame);
      }
      for (std::int64_t block = 0; block < blocks_.count; ++block) {
        correlate_block(block, in, samples, spectrum, of_template, out);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] std::size_t length() const noexcept { return static_cast<std::size_t>(blocks_.length); }
  [[nodiscard]] std::size_t sample_space() const noexcept { return space_for(length() * (complex_ ? 2 : 1)); }
  [[nodiscard]] std::size_t spectrum_space() const noexcept {
    return space_for(2 * (complex_ ? length() : static_cast<std::size_t>(blocks_.bins())));
  }

  /// Elements first … first + length() - 1 of a row of `count` elements; zeros beyond its ends.
  void load(const float* row, std::int64_t count, bool complex_row, std::int64_t first, float* out) const noexcept {
    const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, blocks_.length);
    const std::int64_t end = std::clamp<std::int64_t>(count - first, begin, blocks_.length);
    const std::size_t in_width = complex_row ? 2 : 1;
    const std::size_t out_width = complex_ ? 2 : 1;
    const auto present = static_cast<std::size_t>(end - begin);
    const float* const from = row + (first + begin) * static_cast<std::int64_t>(in_width);
    float* const to = out + static_cast<std::size_t>(begin) * out_width;
    std::fill(out, to, 0.0F);
    if (in_width == out_width) {
      std::copy(from, from + present * in_width, to);
    } else {
      widen(from, to, present);
    }
    std::fill(to + present * out_width, out + length() * out_width, 0.0F);
  }

  [[nodiscard]] std::size_t template_values() const noexcept {
    return static_cast<std::size_t>(settings_.template_length) * (settings_.complex_template ? 2 : 1);
  }

  void transform_template(const float* taps, float* samples, float* of_template) const noexcept {
    load(taps, settings_.template_length, settings_.complex_template, 0, samples);
    transform_.execute(samples, of_template);
    scale(of_template, 2 * (complex_ ? length() : static_cast<std::size_t>(blocks_.bins())),
          1.0F / static_cast<float>(blocks_.length));
  }

  void correlate_block(std::int64_t block, const float* row, float* samples, float* spectrum, const float* of_template,
                       float* out) const noexcept {
    const std::int64_t first = block * blocks_.step;
    const auto count = static_cast<std::size_t>(std::min(blocks_.step, settings_.results - first));
    load(row, settings_.length, settings_.complex_signal, settings_.start() + first, samples);
    transform_.execute(samples, spectrum);
    if (complex_) {
      multiply_complex(spectrum, of_template, samples, length());
      transform_.execute(samples, spectrum);
      read_conjugate(spectrum, out + 2 * first, count);
    } else {
      multiply_real(spectrum, of_template, samples, length());
      transform_.execute(samples, spectrum);
      read_real(spectrum, out + first, length(), count);
    }
  }

  const correlate_settings settings_;
  const correlate_blocks blocks_;
  const bool complex_;  ///< the transforms are of complex rows
  const fft_plan transform_;
  std::vector<aligned_piece> kept_spectrum_;  ///< of the parameter's template
};

}  // namespace

std::unique_ptr<operation> make_fft_correlate_host(correlate_settings settings) {
  return std::make_unique<correlate_fft_host>(std::move(settings));
}

}  // namespace penstock
