#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/frame_rows.hpp"
#include "kernels/operation.hpp"
#include "kernels/operation_input.hpp"

namespace penstock {

/// correlate: each row x of N samples against a template h of M, as scipy.signal.correlate does it; a matched filter.
///
///   y[k] = sum_n x[n + k - (M - 1)] · conj(h[n]),  k = 0 … N + M - 2,  x being 0 outside of its row
///
/// Inputs: the signal, f32 or cf32, whose last extent is fixed; and, where `template` isn't given, the templates, f32
/// or cf32: [M], one for all rows of its frame, or the signal's leading extents and [M], one for each row.
/// Output: f32 where both are real, else cf32; the signal's leading extents and
///   mode "full"   N + M - 1: every k
///        "same"   N: from k = (M - 1) / 2 on
///        "valid"  |N - M| + 1: from k = min(N, M) - 1 on; no sample beyond either's ends takes part
/// Parameters:
///   template       list of numbers, finite in f32; h, or its real part
///   template_imag  list of as many numbers: the imaginary part of h; makes it complex
///   mode           "full" (default) | "same" | "valid"
///   method         "auto" (default): whichever is faster for as many terms | "direct": the sum | "fft": blocks of the
///   row through the discrete Fourier
///                  transform (overlap-save: A. V. Oppenheim, R. W. Schafer, Discrete-Time Signal Processing, 8.7)
/// Each result is within 1e-6 of sum |h| times the largest |x| that takes part in it, whatever else its row holds. A
/// NaN or an infinity makes the results that it takes part in not finite, and no others.
struct correlate_settings {
  bool complex_signal = false;
  bool complex_template = false;
  sum_method method = sum_method::automatic;
  std::int64_t length = 0;           ///< N
  std::int64_t template_length = 0;  ///< M
  std::int64_t first = 0;            ///< k of a row's first result
  std::int64_t results = 0;          ///< of a row
  std::vector<float> coefficients;   ///< `template`, (re, im) pairs when complex; empty: the second input
  bool template_a_row = false;       ///< the second input has a template for each row, not for each frame
  frame_rows rows;                   ///< of the signal; the output has as many
  tensor_spec output;

  [[nodiscard]] bool complex_output() const noexcept { return complex_signal || complex_template; }
  /// Where, relative to its row, the sample lies that the first result takes with h[0]; never behind the row's start,
  /// and the last result takes none before the row's end.
  [[nodiscard]] std::int64_t start() const noexcept { return first - (template_length - 1); }
  /// The most terms of a sum.
  [[nodiscard]] std::int64_t terms() const noexcept { return length < template_length ? length : template_length; }
  /// How many rows, one behind the other, share a template.
  [[nodiscard]] std::int64_t rows_a_template(const batch_extent& extent) const noexcept {
    return !coefficients.empty() ? rows.count(extent)
           : template_a_row      ? 1
                                 : rows.count({.frames = 1, .leading = extent.leading});
  }
};

/// Throws parameter_error.
[[nodiscard]] correlate_settings parse_correlate(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] tensor_spec infer_correlate(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_correlate_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_correlate_cuda(const operation_request& request);

/// The two methods behind `make_correlate_…`.
[[nodiscard]] std::unique_ptr<operation> make_direct_correlate_host(correlate_settings settings);
[[nodiscard]] std::unique_ptr<operation> make_fft_correlate_host(correlate_settings settings);
[[nodiscard]] std::unique_ptr<operation> make_direct_correlate_cuda(correlate_settings settings);
[[nodiscard]] std::unique_ptr<operation> make_fft_correlate_cuda(correlate_settings settings, const batch_extent& most);

}  // namespace penstock
