#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operation_input.hpp"
#include "kernels/session_history.hpp"

namespace penstock {

struct correlate_blocks;

/// fir: a finite impulse response filter along a session, of whose output every D-th step is kept.
///
///   y[m] = sum over k = 0 … K − 1 of h[k] · x[D·m − k],   x = 0 before the session's first step
/// Causal: the delay of the filter is not taken out (A. V. Oppenheim, R. W. Schafer, Discrete-Time Signal Processing,
/// 3rd edition, sections 2.3 and 4.6; scipy.signal.lfilter(h, 1, x)[::D]). However the session is cut into frames, the
/// numbers are those of the whole signal.
/// Products are summed in f32 over up to 64 taps, these sums in float64, or blocks of steps go through the Fourier
/// transform. Either way each output is within 1e-6 of sum |h| times the peak of its own K steps, whatever lies
/// elsewhere in the signal.
///
/// Input: f32 or cf32, [N, channels...]; N may be "max N". Steps run along the first dimension; each channel is
/// filtered by itself. Output: f32, or cf32 where the input or the taps are complex; [N / D, channels...] for a fixed
/// N, which must be a multiple of D, and [max ⌈N / D⌉, channels...] for "max N". A frame gives the m with D·m from its
/// first step (counted from the session's start) to its last. Parameters:
///   taps        1 to 65536 numbers, finite in f32, required
///   taps_imag   as many numbers: the taps are taps + j·taps_imag; default: the taps are real
///   decimation  integer D, 1 … 2³¹ − 1, default 1
///   method      "auto" (default): whichever is faster for as many taps | "direct": the sum | "fft": the transform. On
///               CUDA each of them is the sum.
/// State: the last K − 1 steps (at least one).
/// A NaN or an infinity reaches the K steps from its own on, of its channel.
struct fir_settings {
  std::vector<float> taps;
  std::vector<float> taps_imag;  ///< empty for real taps
  std::int64_t decimation = 1;
  sum_method method = sum_method::automatic;
  std::int64_t channels = 1;
  std::int64_t kept = 1;  ///< steps of the state
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] step_rate rate() const noexcept { return {decimation, decimation - 1}; }
  [[nodiscard]] bool complex_taps() const noexcept { return !taps_imag.empty(); }
  [[nodiscard]] std::int64_t length() const noexcept { return static_cast<std::int64_t>(taps.size()); }
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return static_cast<std::size_t>(kept * channels) * size_of(input.type);
  }
};

/// Products that are summed in single precision before their sum is widened.
inline constexpr std::int64_t fir_partial = 64;

/// The step of the frame at which it gives its first output, if it has so many.
[[nodiscard]] PENSTOCK_HOST_DEVICE constexpr std::int64_t first_kept_step(std::int64_t position,
                                                                          std::int64_t decimation) noexcept {
  return (decimation - position % decimation) % decimation;
}

/// Throws parameter_error.
[[nodiscard]] fir_settings parse_fir(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_fir(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] session_traits fir_session(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_fir_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_fir_cuda(const operation_request& request);

/// The way of `make_fir_host` for many taps: blocks of a channel through the Fourier transform.
[[nodiscard]] std::unique_ptr<operation> make_fft_fir_host(fir_settings settings);
/// How it cuts a frame's steps into blocks.
[[nodiscard]] correlate_blocks plan_fir_blocks(const fir_settings& settings);

}  // namespace penstock
