#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/parameters.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// Which window function. All are periodic (DFT-even), the form for spectra: w[k] = w[k + N].
enum class window_function { hann, hamming, blackman, rectangular };

/// The window that the parameter `key` names; `hann` when it is missing. Throws parameter_error with the known names.
[[nodiscard]] window_function window_function_of(const parameters& settings, std::string_view key);

/// w[0] ... w[length-1], computed in float64. With t = 2 pi k / length:
///   hann         0.5  - 0.5  cos t
///   hamming      0.54 - 0.46 cos t
///   blackman     0.42 - 0.5  cos t + 0.08 cos 2t
///   rectangular  1
/// Source: F. J. Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform",
/// Proc. IEEE 66 (1978), in their periodic forms.
[[nodiscard]] std::vector<double> window_coefficients(window_function window, std::int64_t length);

/// window: y[..., k] = w[k] · x[..., k] along the last axis; w as in window_coefficients, rounded to f32.
///
/// Input: f32 or cf32, any shape whose last extent is fixed. Output: the input's spec.
/// Parameters:
///   window  "hann" (default) | "hamming" | "blackman" | "rectangular"; all periodic.
///   axis    along_axis.hpp
/// NaN and infinities stay where they are (an infinity at w[k] = 0 gives NaN).
struct window_settings {
  std::vector<float> coefficients;  ///< one for each element of a row
  frame_rows rows;
  tensor_spec input;
  tensor_spec output;
};

/// Throws parameter_error.
[[nodiscard]] inline window_settings parse_window(const parameters& settings, const tensor_spec& input) {
  require_element_type("window", input, {element_type::f32, element_type::cf32});
  require_fixed_last_axis("window", input);
  window_settings parsed{.coefficients = {}, .rows = frame_rows{input}, .input = input, .output = input};
  for (const double w : window_coefficients(window_function_of(settings, "window"), input.shape.back())) {
    parsed.coefficients.push_back(static_cast<float>(w));
  }
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_window_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_window_cuda(const operation_request& request);

}  // namespace penstock
