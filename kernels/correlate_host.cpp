#include "kernels/correlate.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/fft_host.hpp"
#include "kernels/function_attributes.hpp"
#include "kernels/overlap_save.hpp"

namespace penstock {
namespace {

/// Results that are summed side by side, in registers.
constexpr std::size_t lanes = 32;
/// Terms that are summed in f32 before the sum is widened: the sum of so many equal terms stays within 1e-6.
constexpr std::size_t partial_terms = 256;
/// Templates are scaled if the exponent of their peak is beyond this.
constexpr int max_template_exponent = 20;

/// Real and imaginary parts in separate arrays; `im` is nullptr for real values.
struct parts {
  float* re = nullptr;
  float* im = nullptr;
};

/// re[l] + j im[l] = sum_{n = first_term … end_term - 1} x[n + l] conj(h[n]).
template <bool ComplexSignal, bool ComplexTemplate>
[[gnu::always_inline]] inline void sum_terms(parts x, parts h, std::size_t first_term, std::size_t end_term,
                                             float* __restrict re, float* __restrict im) noexcept {
  double re_total[lanes] = {};
  double im_total[lanes] = {};
  for (std::size_t first = first_term; first < end_term; first += partial_terms) {
    const std::size_t end = std::min(first + partial_terms, end_term);
    float re_sum[lanes] = {};
    float im_sum[lanes] = {};
    for (std::size_t n = first; n < end; ++n) {
      for (std::size_t l = 0; l < lanes; ++l) {
        re_sum[l] += x.re[n + l] * h.re[n];
        if constexpr (ComplexSignal && ComplexTemplate) {
          re_sum[l] += x.im[n + l] * h.im[n];
        }
        if constexpr (ComplexSignal) {
          im_sum[l] += x.im[n + l] * h.re[n];
        }
        if constexpr (ComplexTemplate) {
          im_sum[l] -= x.re[n + l] * h.im[n];
        }
      }
    }
    for (std::size_t l = 0; l < lanes; ++l) {
      re_total[l] += static_cast<double>(re_sum[l]);
      im_total[l] += static_cast<double>(im_sum[l]);
    }
  }
  for (std::size_t l = 0; l < lanes; ++l) {
    re[l] = static_cast<float>(re_total[l]);
    im[l] = static_cast<float>(im_total[l]);
  }
}

PENSTOCK_VECTOR_CLONES void sum_real(parts x, parts h, std::size_t first_term, std::size_t end_term, float* re,
                                     float* im) {
  sum_terms<false, false>(x, h, first_term, end_term, re, im);
}
PENSTOCK_VECTOR_CLONES void sum_complex_signal(parts x, parts h, std::size_t first_term, std::size_t end_term,
                                               float* re, float* im) {
  sum_terms<true, false>(x, h, first_term, end_term, re, im);
}
PENSTOCK_VECTOR_CLONES void sum_complex_template(parts x, parts h, std::size_t first_term, std::size_t end_term,
                                                 float* re, float* im) {
  sum_terms<false, true>(x, h, first_term, end_term, re, im);
}
PENSTOCK_VECTOR_CLONES void sum_complex(parts x, parts h, std::size_t first_term, std::size_t end_term, float* re,
                                        float* im) {
  sum_terms<true, true>(x, h, first_term, end_term, re, im);
}

PENSTOCK_VECTOR_CLONES void separate(const float* __restrict in, std::size_t count, float* __restrict re,
                                     float* __restrict im) {
  for (std::size_t i = 0; i < count; ++i) {
    re[i] = in[2 * i];
    im[i] = in[2 * i + 1];
  }
}

PENSTOCK_VECTOR_CLONES void interleave(const float* __restrict re, const float* __restrict im, std::size_t count,
                                       float* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = re[i];
    out[2 * i + 1] = im[i];
  }
}

void take_apart(const float* in, std::size_t count, parts destination) noexcept {
  if (destination.im == nullptr) {
    std::copy(in, in + count, destination.re);
  } else {
    separate(in, count, destination.re, destination.im);
  }
}

/// The power of two by which a template is divided, and its results multiplied. With a template near 1, products
/// overflow only if their sample is near the end of the range of f32.
int exponent_of_template(parts h, std::size_t count) noexcept {
  float peak = 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    peak = std::max({peak, std::abs(h.re[i]), h.im == nullptr ? 0.0F : std::abs(h.im[i])});
  }
  return std::isnormal(peak) && std::abs(std::ilogb(peak)) > max_template_exponent ? std::ilogb(peak) + 1 : 0;
}

void scale(float* values, std::size_t count, int exponent) noexcept {
  for (std::size_t i = 0; values != nullptr && i < count; ++i) {
    values[i] = std::scalbn(values[i], exponent);
  }
}

/// The direct sum. The scratch holds the parts of the templates that a row meets and their exponents, and of the row,
/// which is padded with as many zeros as its results reach beyond its ends.
class correlate_direct_host final : public operation {
 public:
  explicit correlate_direct_host(correlate_settings settings)
      : settings_{std::move(settings)},
        taps_{static_cast<std::size_t>(settings_.template_length)},
        bank_{static_cast<std::size_t>(settings_.bank)},
        covered_{(static_cast<std::size_t>(settings_.results) + lanes - 1) / lanes * lanes + taps_ - 1} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (2 * covered_ + bank_ * (2 * taps_ + 1)) * sizeof(float);
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto rows_per_template = static_cast<std::size_t>(settings_.rows_per_template(arguments.extent));
    const std::size_t in_step = static_cast<std::size_t>(settings_.length) * (settings_.complex_signal ? 2 : 1);
    const std::size_t out_step = static_cast<std::size_t>(settings_.results) * (settings_.complex_output() ? 2 : 1);
    auto* const scratch = static_cast<float*>(arguments.scratch);
    const parts x{scratch, settings_.complex_signal ? scratch + covered_ : nullptr};
    float* const templates = scratch + 2 * covered_;
    auto* const exponents = reinterpret_cast<std::int32_t*>(templates + 2 * bank_ * taps_);
    std::fill_n(scratch, 2 * covered_, 0.0F);
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::size_t row = 0; row < rows; ++row, in += in_step) {
      if (row % rows_per_template == 0) {
        for (std::size_t each = 0; each < bank_; ++each) {
          exponents[each] =
              place_template(template_of(row / rows_per_template * bank_ + each, arguments), parts_of(templates, each));
        }
      }
      place_row(in, x);
      for (std::size_t each = 0; each < bank_; ++each, out += out_step) {
        correlate_row(x, parts_of(templates, each), out);
        if (exponents[each] != 0) {
          scale(out, out_step, exponents[each]);
        }
      }
    }
    return {};
  }

 private:
  [[nodiscard]] const float* template_of(std::size_t place, const operation_arguments& arguments) const noexcept {
    const float* const all =
        settings_.coefficients.empty() ? static_cast<const float*>(arguments.inputs[1]) : settings_.coefficients.data();
    return all + place * taps_ * (settings_.complex_template ? 2 : 1);
  }

  [[nodiscard]] parts parts_of(float* templates, std::size_t place) const noexcept {
    float* const re = templates + 2 * place * taps_;
    return {re, settings_.complex_template ? re + taps_ : nullptr};
  }

  /// Gives the exponent.
  [[nodiscard]] int place_template(const float* from, parts h) const noexcept {
    take_apart(from, taps_, h);
    const int exponent = exponent_of_template(h, taps_);
    if (exponent != 0) {
      scale(h.re, taps_, -exponent);
      scale(h.im, taps_, -exponent);
    }
    return exponent;
  }

  [[nodiscard]] std::size_t zeros_before() const noexcept { return static_cast<std::size_t>(-settings_.start()); }

  /// The zeros around the row are written once.
  void place_row(const float* in, parts x) const noexcept {
    take_apart(in, static_cast<std::size_t>(settings_.length),
               {x.re + zeros_before(), x.im == nullptr ? nullptr : x.im + zeros_before()});
  }

  void correlate_row(parts x, parts h, float* out) const noexcept {
    const auto results = static_cast<std::size_t>(settings_.results);
    const std::size_t row_begin = zeros_before();
    const std::size_t row_end = row_begin + static_cast<std::size_t>(settings_.length);
    float re[lanes];
    float im[lanes];
    for (std::size_t k = 0; k < results; k += lanes) {
      // Only terms that meet a sample of the row in one of the lanes.
      const std::size_t first_term = row_begin > k + lanes - 1 ? row_begin - (k + lanes - 1) : 0;
      const std::size_t end_term = std::max(first_term, std::min(taps_, row_end > k ? row_end - k : 0));
      sum({x.re + k, x.im == nullptr ? nullptr : x.im + k}, h, first_term, end_term, re, im);
      const std::size_t count = std::min(lanes, results - k);
      if (settings_.complex_output()) {
        interleave(re, im, count, out + 2 * k);
      } else {
        std::copy(re, re + count, out + k);
      }
    }
  }

  void sum(parts x, parts h, std::size_t first_term, std::size_t end_term, float* re, float* im) const noexcept {
    if (settings_.complex_signal) {
      (settings_.complex_template ? sum_complex : sum_complex_signal)(x, h, first_term, end_term, re, im);
    } else {
      (settings_.complex_template ? sum_complex_template : sum_real)(x, h, first_term, end_term, re, im);
    }
  }

  const correlate_settings settings_;
  const std::size_t taps_;
  const std::size_t bank_;
  const std::size_t covered_;  ///< samples of the row and zeros around it that the results see
};

/// (re, im) pairs of real values.
PENSTOCK_VECTOR_CLONES void widen(const float* __restrict in, float* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = in[i];
    out[2 * i + 1] = 0.0F;
  }
}

/// Overlap-save. The scratch holds the samples of a block, the scratch of its transform, and templates that come with
/// the frames; those of a parameter are prepared once.
class correlate_fft_host final : public operation {
 public:
  explicit correlate_fft_host(correlate_settings settings)
      : settings_{std::move(settings)},
        blocks_{plan_correlate_blocks(settings_)},
        complex_{settings_.complex_output()},
        correlation_{blocks_.length, settings_.template_length, complex_},
        bank_{static_cast<std::size_t>(settings_.bank)},
        kept_templates_{settings_.coefficients.empty() ? 0 : bank_ * correlation_.template_space()} {
    if (kept_templates_.data() != nullptr) {
      aligned_floats samples(correlation_.sample_space());
      set_templates(settings_.coefficients.data(), samples.data(), kept_templates_.data());
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (correlation_.sample_space() + correlation_.scratch_space() +
            (settings_.coefficients.empty() ? bank_ * correlation_.template_space() : 0)) *
           sizeof(float);
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto rows_per_template = static_cast<std::size_t>(settings_.rows_per_template(arguments.extent));
    const std::size_t in_step = static_cast<std::size_t>(settings_.length) * (settings_.complex_signal ? 2 : 1);
    const std::size_t out_step = static_cast<std::size_t>(settings_.results) * (complex_ ? 2 : 1);
    auto* const samples = static_cast<float*>(arguments.scratch);
    float* const scratch = samples + correlation_.sample_space();
    float* const frame_templates = scratch + correlation_.scratch_space();
    const float* const prepared = kept_templates_.data() == nullptr ? frame_templates : kept_templates_.data();
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::size_t row = 0; row < rows; ++row, in += in_step, out += bank_ * out_step) {
      if (prepared == frame_templates && row % rows_per_template == 0) {
        const auto* const templates = static_cast<const float*>(arguments.inputs[1]);
        set_templates(templates + row / rows_per_template * bank_ * template_values(), samples, frame_templates);
      }
      for (std::int64_t block = 0; block < blocks_.count; ++block) {
        correlate_block(block, in, samples, scratch, prepared, out);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] std::size_t length() const noexcept { return static_cast<std::size_t>(blocks_.length); }

  /// Elements first … first + length() - 1 of a row of `count` elements; zeros beyond its ends.
  void load(const float* row, std::int64_t count, bool complex_row, std::int64_t first, float* out) const noexcept {
    const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, blocks_.length);
    const std::int64_t end = std::clamp<std::int64_t>(count - first, begin, blocks_.length);
    const std::size_t in_width = complex_row ? 2 : 1;
    const std::size_t out_width = complex_ ? 2 : 1;
    const auto present = static_cast<std::size_t>(end - begin);
    const float* const source = row + (first + begin) * static_cast<std::int64_t>(in_width);
    float* const destination = out + static_cast<std::size_t>(begin) * out_width;
    std::fill(out, destination, 0.0F);
    if (in_width == out_width) {
      std::copy(source, source + present * in_width, destination);
    } else {
      widen(source, destination, present);
    }
    std::fill(destination + present * out_width, out + length() * out_width, 0.0F);
  }

  [[nodiscard]] std::size_t template_values() const noexcept {
    return static_cast<std::size_t>(settings_.template_length) * (settings_.complex_template ? 2 : 1);
  }

  void set_templates(const float* taps, float* samples, float* prepared) const noexcept {
    for (std::size_t each = 0; each < bank_; ++each) {
      load(taps + each * template_values(), settings_.template_length, settings_.complex_template, 0, samples);
      correlation_.set_template(samples, prepared + each * correlation_.template_space());
    }
  }

  void correlate_block(std::int64_t block, const float* row, float* samples, float* scratch, const float* prepared,
                       float* out) const noexcept {
    const std::int64_t first = block * blocks_.step;
    const auto count = static_cast<std::size_t>(std::min(blocks_.step, settings_.results - first));
    const std::int64_t parts = complex_ ? 2 : 1;
    load(row, settings_.length, settings_.complex_signal, settings_.start() + first, samples);
    correlation_.run_bank(samples, scratch, {prepared, bank_, static_cast<std::size_t>(settings_.results * parts)},
                          out + first * parts, {count, 1});
  }

  const correlate_settings settings_;
  const overlap_save_blocks blocks_;
  const bool complex_;  ///< the transforms are of complex rows
  const fft_correlation correlation_;
  const std::size_t bank_;
  aligned_floats kept_templates_;  ///< of the parameter
};

/// Above this number of terms "auto" uses the transform. Measured on one core with AVX2, rows of 1024 and of 65536
/// samples: both take equally long at 32 … 48 real terms and at 8 … 10 complex ones.
constexpr std::int64_t max_direct_terms = 32;
constexpr std::int64_t max_direct_complex_terms = 8;

bool is_short(const correlate_settings& settings) noexcept {
  return settings.terms() <= (settings.complex_output() ? max_direct_complex_terms : max_direct_terms);
}

}  // namespace

std::unique_ptr<operation> make_correlate_host(const operation_request& request) {
  correlate_settings settings = parse_correlate(request.settings, request.inputs);
  const bool direct =
      settings.method == sum_method::direct || (settings.method == sum_method::automatic && is_short(settings));
  if (direct) {
    return std::make_unique<correlate_direct_host>(std::move(settings));
  }
  return std::make_unique<correlate_fft_host>(std::move(settings));
}

}  // namespace penstock
