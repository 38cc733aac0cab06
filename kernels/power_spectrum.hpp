#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/frame_rows.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// power_spectrum: P[..., k] = | sum_i w[i] x[..., i] exp(-2 pi j i k / N) |² along the last axis, unnormalised; the
/// periodogram of one windowed row without its scaling (P. D. Welch, IEEE Trans. Audio Electroacoust. 15, 1967).
///
/// Input: f32 or cf32; the last extent N is fixed and at least 2.
/// Output: f32; the last extent is N for cf32, bins in the DFT's natural order (bin 0 is DC), and N/2 + 1 for f32,
/// one-sided and not doubled.
/// Parameters:
///   window  "hann" (default) | "hamming" | "blackman" | "rectangular"; all periodic (window_function.hpp).
///   scale   "power" (default): P, in f32's range. "db": 10 log10(P / (sum w)²), over all of f32's range of X: a
///           full-scale complex tone on a bin reads 0 dB, a real one -6.02 dB.
///   floor   number from -700 to 700, default -200: the least level that "db" shows; only with "db"
/// Within 1e-5 of the row's largest P. A NaN or an infinity makes every bin of its row not finite.
struct power_spectrum_settings {
  bool complex_input = false;
  bool decibels = false;
  std::int64_t length = 0;          ///< N
  std::int64_t bins = 0;            ///< N, or N/2 + 1
  std::vector<float> coefficients;  ///< w, one for each element of a row
  double power_scale = 1.0;         ///< 1 / (sum w)²; only "db" applies it
  float floor = -200.0F;            ///< likewise
  frame_rows rows;                  ///< of the input; the output has as many
  tensor_spec input;
  tensor_spec output;
};

/// A factor of a power as m · 2^exponent, m in [1/2, 1).
struct power_factor {
  explicit power_factor(double factor) noexcept : mantissa{static_cast<float>(std::frexp(factor, &exponent))} {}

  int exponent = 0;
  float mantissa;
};

/// Throws parameter_error.
[[nodiscard]] power_spectrum_settings parse_power_spectrum(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_power_spectrum(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_power_spectrum_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_power_spectrum_cuda(const operation_request& request);

}  // namespace penstock
