#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// fft and ifft: the discrete Fourier transform of each row, and its inverse; their definitions are numpy's.
///
///   fft   X[..., k] = s · sum_i x[..., i] exp(−2 pi j i k / N)
///   ifft  x[..., i] = s · sum_k X[..., k] exp(+2 pi j i k / N)
///
/// fft takes f32 or cf32 [..., N] and gives cf32: [..., N], or with `half` [..., N/2 + 1] as numpy.fft.rfft.
/// ifft takes cf32 [..., N] and gives cf32 [..., N]; with `half` it takes [..., M] and gives f32 [..., length] as
/// numpy.fft.irfft: bins from M on are zero, those beyond length/2 are not used, and neither is the imaginary part of
/// bin 0 and, for an even length, of bin length/2.
/// The last extent is fixed. Any length has a transform in O(N log N).
/// Parameters:
///   half    boolean. fft: real input only, default true unless `shift`. ifft: default false
///   length  ifft with `half`: N, an integer from 1 to 2^24, or to 2 (M − 1) where that is more, default 2 (M − 1)
///   shift   boolean, default false: bin 0 stands in the middle of the spectrum, at N/2 rounded down, as
///           numpy.fft.fftshift puts it; not with `half`
///   norm    "backward" (default): s is 1 for fft and 1/N for ifft; "ortho": 1/sqrt(N) for both; "forward": 1/N for
///           fft and 1 for ifft
///   axis    along_axis.hpp
/// Within 1e-5 of the row's largest result, where N times the largest and the smallest number that matters of the row
/// lie in f32's range. A NaN or an infinity makes every result of its row not finite, but for
/// the imaginary part of bin 0 of real input, and of bin N/2.
struct fourier_settings {
  bool inverse = false;
  bool complex_input = false;
  bool half = false;
  std::int64_t length = 0;  ///< N
  std::int64_t bins = 0;    ///< of a row of the spectrum: N, N/2 + 1, or M
  std::int64_t shift = 0;   ///< where bin 0 stands
  float scale = 1.0F;       ///< s
  frame_rows rows;          ///< of the input; the output has as many
  tensor_spec input;
  tensor_spec output;

  /// The result is the plain transform: nothing is to be done before and behind it.
  [[nodiscard]] bool is_plain() const noexcept { return shift == 0 && scale == 1.0F; }
};

/// Of a transform whose length is not that of its input: a plan for it takes memory and time, whatever the frames are.
inline constexpr std::int64_t max_given_length = std::int64_t{1} << 24;

[[nodiscard]] inline float parse_norm(const parameters& settings, bool inverse, std::int64_t length) {
  const std::size_t norm = parse_choice(settings, "norm", {"backward", "ortho", "forward"});
  const auto n = static_cast<double>(length);
  const bool divides = norm == (inverse ? 0 : 2);
  return static_cast<float>(norm == 1 ? 1.0 / std::sqrt(n) : divides ? 1.0 / n : 1.0);
}

inline void parse_shift(const parameters& settings, fourier_settings& parsed) {
  const bool shift = settings.flag("shift", false);
  if (shift && parsed.half) {
    throw parameter_error("shift", "is for whole spectra, not with 'half'");
  }
  parsed.shift = shift ? parsed.length / 2 : 0;
}

/// Throws parameter_error.
[[nodiscard]] inline fourier_settings parse_fft(const parameters& settings, const tensor_spec& input) {
  require_element_type("fft", input, {element_type::f32, element_type::cf32});
  require_fixed_last_axis("fft", input);
  fourier_settings parsed;
  parsed.complex_input = is_complex(input.type);
  parsed.half = settings.flag("half", !parsed.complex_input && !settings.flag("shift", false));
  if (parsed.half && parsed.complex_input) {
    throw parameter_error("half", "is for f32 input, not for " + input.text());
  }
  parsed.length = input.shape.back();
  parsed.bins = parsed.half ? parsed.length / 2 + 1 : parsed.length;
  parse_shift(settings, parsed);
  parsed.scale = parse_norm(settings, false, parsed.length);
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::cf32;
  parsed.output.shape.back() = parsed.bins;
  return parsed;
}

/// Throws parameter_error.
[[nodiscard]] inline fourier_settings parse_ifft(const parameters& settings, const tensor_spec& input) {
  require_element_type("ifft", input, {element_type::cf32});
  require_fixed_last_axis("ifft", input);
  fourier_settings parsed;
  parsed.inverse = true;
  parsed.complex_input = true;
  parsed.half = settings.flag("half", false);
  parsed.bins = input.shape.back();
  parsed.length = parsed.bins;
  if (parsed.half) {
    if (!settings.has("length") && parsed.bins < 2) {
      throw parameter_error("length", "is missing, as one bin alone does not tell it");
    }
    const std::int64_t usual = 2 * (parsed.bins - 1);
    parsed.length = parse_integer(settings, "length", 1, std::max(max_given_length, usual), usual);
  } else if (settings.has("length")) {
    throw parameter_error("length", "is only for half = true");
  }
  parse_shift(settings, parsed);
  parsed.scale = parse_norm(settings, true, parsed.length);
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = parsed.half ? element_type::f32 : element_type::cf32;
  parsed.output.shape.back() = parsed.length;
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_fft_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_ifft_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_fft_cuda(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_ifft_cuda(const operation_request& request);

}  // namespace penstock
