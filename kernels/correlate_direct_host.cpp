#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "kernels/correlate.hpp"
#include "kernels/vector_clones.hpp"

namespace penstock {
namespace {

/// Results that are summed at once, in registers.
constexpr std::size_t lanes = 32;
/// Terms that are summed in single precision before their sum is widened: so many alike ones stay within 1e-6 of it.
constexpr std::size_t partial_terms = 256;
/// Templates with peaks of other binary exponents are scaled.
constexpr int most_template_exponent = 20;

/// Real and imaginary parts, apart; `im` is nullptr where there is none.
struct parts {
  float* re = nullptr;
  float* im = nullptr;
};

/// re[l] + j im[l] = sum_{n = from … to - 1} x[n + l] conj(h[n]).
template <bool ComplexSignal, bool ComplexTemplate>
[[gnu::always_inline]] inline void sum_terms(parts x, parts h, std::size_t from, std::size_t to, float* __restrict re,
                                             float* __restrict im) noexcept {
  double re_total[lanes] = {};
  double im_total[lanes] = {};
  for (std::size_t first = from; first < to; first += partial_terms) {
    const std::size_t end = std::min(first + partial_terms, to);
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

PENSTOCK_VECTOR_CLONES void sum_real(parts x, parts h, std::size_t from, std::size_t to, float* re, float* im) {
  sum_terms<false, false>(x, h, from, to, re, im);
}
PENSTOCK_VECTOR_CLONES void sum_complex_signal(parts x, parts h, std::size_t from, std::size_t to, float* re,
                                               float* im) {
  sum_terms<true, false>(x, h, from, to, re, im);
}
PENSTOCK_VECTOR_CLONES void sum_complex_template(parts x, parts h, std::size_t from, std::size_t to, float* re,
                                                 float* im) {
  sum_terms<false, true>(x, h, from, to, re, im);
}
PENSTOCK_VECTOR_CLONES void sum_complex(parts x, parts h, std::size_t from, std::size_t to, float* re, float* im) {
  sum_terms<true, true>(x, h, from, to, re, im);
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

void take_apart(const float* in, std::size_t count, parts into) noexcept {
  if (into.im == nullptr) {
    std::copy(in, in + count, into.re);
  } else {
    separate(in, count, into.re, into.im);
  }
}

/// The power of two that a template of so large values is divided by, and its results multiplied: with one near 1 no
/// product leaves f32's range sooner than its sample is near the end of it.
int exponent_of_template(parts h, std::size_t count) noexcept {
  float peak = 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    peak = std::max({peak, std::abs(h.re[i]), h.im == nullptr ? 0.0F : std::abs(h.im[i])});
  }
  return std::isnormal(peak) && std::abs(std::ilogb(peak)) > most_template_exponent ? std::ilogb(peak) + 1 : 0;
}

void scale(float* values, std::size_t count, int exponent) noexcept {
  for (std::size_t i = 0; values != nullptr && i < count; ++i) {
    values[i] = std::scalbn(values[i], exponent);
  }
}

/// The sum as it stands. The scratch holds the template's and the row's parts, the row between as many zeros as its
/// results look beyond its ends.
class correlate_direct_host final : public operation {
 public:
  explicit correlate_direct_host(correlate_settings settings)
      : settings_{std::move(settings)},
        taps_{static_cast<std::size_t>(settings_.template_length)},
        covered_{(static_cast<std::size_t>(settings_.results) + lanes - 1) / lanes * lanes + taps_ - 1} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return 2 * (covered_ + taps_) * sizeof(float); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto rows_a_template = static_cast<std::size_t>(settings_.rows_a_template(arguments.extent));
    const std::size_t in_step = static_cast<std::size_t>(settings_.length) * (settings_.complex_signal ? 2 : 1);
    const std::size_t out_step = static_cast<std::size_t>(settings_.results) * (settings_.complex_output() ? 2 : 1);
    auto* const scratch = static_cast<float*>(arguments.scratch);
    const parts x{scratch, settings_.complex_signal ? scratch + covered_ : nullptr};
    const parts h{scratch + 2 * covered_, settings_.complex_template ? scratch + 2 * covered_ + taps_ : nullptr};
    std::fill_n(scratch, 2 * covered_, 0.0F);
    int exponent = 0;
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::size_t row = 0; row < rows; ++row, in += in_step, out += out_step) {
      if (row % rows_a_template == 0) {
        take_apart(template_of(row / rows_a_template, arguments), taps_, h);
        exponent = exponent_of_template(h, taps_);
        if (exponent != 0) {
          scale(h.re, taps_, -exponent);
          scale(h.im, taps_, -exponent);
        }
      }
      place_row(in, x);
      correlate_row(x, h, out);
      if (exponent != 0) {
        scale(out, out_step, exponent);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] const float* template_of(std::size_t place, const operation_arguments& arguments) const noexcept {
    return settings_.coefficients.empty()
               ? static_cast<const float*>(arguments.inputs[1]) + place * taps_ * (settings_.complex_template ? 2 : 1)
               : settings_.coefficients.data();
  }

  [[nodiscard]] std::size_t zeros_before() const noexcept { return static_cast<std::size_t>(-settings_.start()); }

  /// The zeros around it stay from row to row.
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
      const std::size_t from = row_begin > k + lanes - 1 ? row_begin - (k + lanes - 1) : 0;
      const std::size_t to = std::max(from, std::min(taps_, row_end > k ? row_end - k : 0));
      sum({x.re + k, x.im == nullptr ? nullptr : x.im + k}, h, from, to, re, im);
      const std::size_t count = std::min(lanes, results - k);
      if (settings_.complex_output()) {
        interleave(re, im, count, out + 2 * k);
      } else {
        std::copy(re, re + count, out + k);
      }
    }
  }

  void sum(parts x, parts h, std::size_t from, std::size_t to, float* re, float* im) const noexcept {
    if (settings_.complex_signal) {
      (settings_.complex_template ? sum_complex : sum_complex_signal)(x, h, from, to, re, im);
    } else {
      (settings_.complex_template ? sum_complex_template : sum_real)(x, h, from, to, re, im);
    }
  }

  const correlate_settings settings_;
  const std::size_t taps_;
  const std::size_t covered_;  ///< samples of the row and zeros around it that the results see
};

}  // namespace

std::unique_ptr<operation> make_direct_correlate_host(correlate_settings settings) {
  return std::make_unique<correlate_direct_host>(std::move(settings));
}

}  // namespace penstock
