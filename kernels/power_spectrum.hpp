#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"
#include "kernels/window.hpp"

namespace penstock {

/// power_spectrum: P[..., k] = | sum_i w[i] x[..., i] exp(-2 pi j i k / N) |² along the last axis, unnormalised; the
/// periodogram of one windowed row without its scaling (P. D. Welch, IEEE Trans. Audio Electroacoust. 15, 1967).
///
/// Input: f32 or cf32; the last extent N is fixed and at least 2.
/// Output: f32; the last extent is N for cf32, bins in the DFT's natural order (bin 0 is DC), and N/2 + 1 for f32,
/// one-sided and not doubled.
/// Parameters:
///   window  "hann" (default) | "hamming" | "blackman" | "rectangular"; all periodic (window.hpp).
///   scale   "power" (default): P, in f32's range. "db": 10 log10(P / (sum w)²), over all of f32's range of X: a
///           full-scale complex tone on a bin reads 0 dB, a real one -6.02 dB.
///   floor   number from -700 to 700, default -200: the least level that "db" shows; only with "db"
///   axis    along_axis.hpp
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

[[nodiscard]] inline float parse_spectrum_floor(const parameters& settings, bool decibels) {
  if (settings.has("floor") && !decibels) {
    throw parameter_error("floor", "is for scale \"db\" only");
  }
  const double floor = settings.number("floor", -200.0);
  if (!(floor >= -700.0 && floor <= 700.0)) {
    throw parameter_error("floor", "must be from -700 to 700 dB");
  }
  return static_cast<float>(floor);
}

inline void require_spectrum_length(const tensor_spec& input) {
  require_fixed_last_axis("power_spectrum", input);
  if (input.shape.back() < 2) {
    throw parameter_error("from", "'power_spectrum' takes rows of at least 2 elements, not " + input.text());
  }
}

/// Throws parameter_error.
[[nodiscard]] inline power_spectrum_settings parse_power_spectrum(const parameters& settings,
                                                                  const tensor_spec& input) {
  require_element_type("power_spectrum", input, {element_type::f32, element_type::cf32});
  require_spectrum_length(input);
  power_spectrum_settings parsed;
  parsed.complex_input = is_complex(input.type);
  parsed.decibels = parse_choice(settings, "scale", {"power", "db"}) == 1;
  parsed.length = input.shape.back();
  parsed.bins = parsed.complex_input ? parsed.length : parsed.length / 2 + 1;
  double sum = 0.0;
  for (const double w : window_coefficients(window_function_of(settings, "window"), parsed.length)) {
    parsed.coefficients.push_back(static_cast<float>(w));
    sum += w;
  }
  parsed.power_scale = 1.0 / (sum * sum);
  parsed.floor = parse_spectrum_floor(settings, parsed.decibels);
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::f32;
  parsed.output.shape.back() = parsed.bins;
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_power_spectrum_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_power_spectrum_cuda(const operation_request& request);

}  // namespace penstock
