#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/invalid_samples.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/overlap_save.hpp"
#include "kernels/session.hpp"

namespace penstock {

/// Whether taps are the same from both ends, but for a rounding, for a sign, and for complex ones for their
/// conjugation.
[[nodiscard]] inline bool has_linear_phase(const std::vector<float>& taps,
                                           const std::vector<float>& taps_imag) noexcept {
  // Whether the numbers are `sign` times the same from behind, within 1e-6 of the largest.
  const auto mirrored = [](const std::vector<float>& numbers, float sign) {
    float largest = 0;
    for (const float number : numbers) {
      largest = std::max(largest, std::abs(number));
    }
    return std::equal(numbers.begin(), numbers.end(), numbers.rbegin(),
                      [=](float front, float back) { return std::abs(front - sign * back) <= 1e-6F * largest; });
  };
  return (mirrored(taps, 1) || mirrored(taps, -1)) && (mirrored(taps_imag, 1) || mirrored(taps_imag, -1));
}

/// fir: a finite impulse response filter along a session, with decimation by D.
///
///   y[m] = sum over k = 0 … K − 1 of h[k] · x[D·m − k],   x = 0 before the session's first step
/// Causal: the delay of the filter is not compensated (A. V. Oppenheim, R. W. Schafer, Discrete-Time Signal Processing,
/// 3rd edition, sections 2.3 and 4.6; scipy.signal.lfilter(h, 1, x)[::D]). Results do not depend on how the session is
/// cut into frames.
/// Products are summed in f32 over up to 64 taps, these sums in float64; or blocks of steps go through the Fourier
/// transform. Either way each output is within 1e-6 of sum |h| times the peak of its own K steps.
///
/// Input: f32 or cf32, [N, channels...]; N may be "max N". Steps run along the first dimension; each channel is
/// filtered by itself.
/// Output: f32, or cf32 if the input or the taps are complex; [N / D, channels...] for a fixed N, which must be a
/// multiple of D, and [max ⌈N / D⌉, channels...] for "max N". A frame gives every y[m] with D·m among its own steps.
/// Parameters:
///   taps        1 to 65536 numbers, finite in f32, required
///   taps_imag   as many numbers: the taps are taps + j·taps_imag; default: the taps are real
///   decimation  integer D, 1 … 2³¹ − 1, default 1
///   method      "auto" (default): whichever is faster | "direct": the sum | "fft": overlap-save by the Fourier
///               transform. On CUDA always the sum.
///   on_nan      what an invalid sample, a NaN or an infinity in one of its parts, does to its channel:
///               "spread" (default): it reaches the K steps from its own on
///               "reset": the output is NaN at it, and the filter begins behind it, at rest
///               "hold":  the output is NaN at it, and the filter goes on behind it as if it had not come
///               On CUDA "reset" and "hold" take each output's samples from the input one by one.
///   axis        along_axis.hpp
/// State: the last K − 1 steps (at least one), with "reset" and "hold" those that the filter goes on with.
struct fir_settings {
  std::vector<float> taps;
  std::vector<float> taps_imag;  ///< empty for real taps
  std::int64_t decimation = 1;
  sum_method method = sum_method::automatic;
  invalid_samples on_nan = invalid_samples::spread;
  std::int64_t channels = 1;
  std::int64_t kept = 1;  ///< steps of the state
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] step_rate rate() const noexcept { return {decimation, decimation - 1}; }
  /// The group delay of a filter of linear phase; 0 for any other.
  [[nodiscard]] double delay() const noexcept {
    return has_linear_phase(taps, taps_imag) ? static_cast<double>(length() - 1) / 2 : 0;
  }
  [[nodiscard]] bool complex_taps() const noexcept { return !taps_imag.empty(); }
  [[nodiscard]] std::int64_t length() const noexcept { return static_cast<std::int64_t>(taps.size()); }
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return static_cast<std::size_t>(kept * channels) * size_of(input.type);
  }
};

/// Products that are summed in f32 before the sum is widened.
inline constexpr std::int64_t fir_partial = 64;

/// The step of the frame that gives its first output, if the frame is long enough.
[[nodiscard]] PENSTOCK_HOST_DEVICE constexpr std::int64_t first_kept_step(std::int64_t position,
                                                                          std::int64_t decimation) noexcept {
  return (decimation - position % decimation) % decimation;
}

inline constexpr std::size_t max_fir_taps = 65536;

[[nodiscard]] inline std::vector<float> parse_fir_taps(const parameters& settings, const char* key) {
  std::vector<float> taps;
  for (const double tap : settings.numbers(key)) {
    if (!is_finite_f32(tap)) {
      throw parameter_error(key, "must be finite numbers within f32's range");
    }
    taps.push_back(static_cast<float>(tap));
  }
  if (taps.empty() || taps.size() > max_fir_taps) {
    throw parameter_error(
        key, "must be 1 to " + std::to_string(max_fir_taps) + " numbers, not " + std::to_string(taps.size()));
  }
  return taps;
}

/// The imaginary parts of `count` taps; none for real taps.
[[nodiscard]] inline std::vector<float> parse_fir_taps_imag(const parameters& settings, std::size_t count) {
  if (!settings.has("taps_imag")) {
    return {};
  }
  std::vector<float> taps = parse_fir_taps(settings, "taps_imag");
  if (taps.size() != count) {
    throw parameter_error("taps_imag", "must be as many numbers as taps, " + std::to_string(count) + ", not " +
                                           std::to_string(taps.size()));
  }
  return taps;
}

[[nodiscard]] inline std::int64_t parse_fir_decimation(const parameters& settings, const tensor_spec& input) {
  const std::int64_t decimation = settings.integer("decimation", 1);
  if (decimation < 1 || decimation > std::numeric_limits<std::int32_t>::max()) {
    throw parameter_error("decimation", "must be from 1 to 2147483647, not " + std::to_string(decimation));
  }
  const std::string steps = std::to_string(input.shape.front());
  if (!input.variable && input.shape.front() % decimation != 0) {
    throw parameter_error("decimation", "must divide the " + steps + " steps of " + input.text() +
                                            ": use frames of a multiple of it, or \"max " + steps + "\"");
  }
  return decimation;
}

/// Throws parameter_error.
[[nodiscard]] inline fir_settings parse_fir(const parameters& settings, const tensor_spec& input) {
  require_element_type("fir", input, {element_type::f32, element_type::cf32});
  fir_settings parsed;
  parsed.taps = parse_fir_taps(settings, "taps");
  parsed.taps_imag = parse_fir_taps_imag(settings, parsed.taps.size());
  parsed.decimation = parse_fir_decimation(settings, input);
  parsed.method = parse_sum_method(settings);
  parsed.on_nan = parse_on_nan(settings);
  parsed.channels = input.elements() / input.shape.front();
  parsed.kept = std::max<std::int64_t>(parsed.length() - 1, 1);
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = parsed.complex_taps() ? element_type::cf32 : input.type;
  parsed.output.shape.front() = parsed.rate().most(input.shape.front());
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> fir_session(const parameters& settings,
                                                               std::span<const tensor_spec> inputs) {
  const fir_settings parsed = parse_fir(settings, sole_input("fir", inputs));
  return session_traits{.whole_frames = false, .rate = parsed.rate(), .delay = parsed.delay()};
}

[[nodiscard]] std::unique_ptr<operation> make_fir_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_fir_cuda(const operation_request& request);

}  // namespace penstock
