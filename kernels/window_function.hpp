#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/parameters.hpp"

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

}  // namespace penstock
