#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "kernels/channelize.hpp"
#include "kernels/fir.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/session.hpp"

namespace penstock {

/// resample: changes the sample rate of a session by L / M with a FIR filter.
///
///   y[m] = sum over k = 0 … K − 1 of h[k] · u[M·m − k],   u[L·n] = x[n], u = 0 elsewhere
/// Equal to scipy.signal.upfirdn(h, x, L, M) over the whole session, of which only the products with steps are computed
/// (P. P. Vaidyanathan, Multirate Systems and Filter Banks, 1993, section 4.3). Results do not depend on how the
/// session is cut into frames.
/// Without taps, h is the filter of scipy.signal.resample_poly: firwin(20·max(L, M) + 1, 1 / max(L, M), window =
/// ("kaiser", 5.0)) times L, for L and M without a common factor, behind the fewest zeros that make its delay a whole
/// number d of output steps. So y[m + d] is what resample_poly gives.
/// Products are summed in f32 over up to 64 taps a lane, these sums in float64. Each output is within 1e-6 of the sum
/// |h| over its own taps, times the peak of its steps.
///
/// Input: f32 or cf32, [N, channels...]; N may be "max N". Steps run along the first dimension; each channel is
/// resampled by itself.
/// Output: f32, or cf32 if the input or the taps are complex; [N·L / M, channels...] for a fixed N, of which that must
/// be a whole number, and [max ⌈N·L / M⌉, channels...] for "max N". A frame gives every y[m] with ⌊M·m / L⌋ among its
/// own steps. Parameters:
///   up         L, integer, 1 … 65536, default 1
///   down       M, integer, 1 … 65536, default 1
///   taps       1 to 65536 numbers, finite in f32; default: as above, for which L and M are at most 16384 once they
///              have no common factor
///   taps_imag  as many numbers: the taps are taps + j·taps_imag; default: the taps are real
///   axis       along_axis.hpp
/// State: the last ⌈K / L⌉ − 1 steps (at least one).
/// A NaN or an infinity reaches the outputs whose taps meet it.
struct resample_settings {
  std::int64_t up = 1;
  std::int64_t down = 1;
  std::vector<float> taps;
  std::vector<float> taps_imag;  ///< empty for real taps
  double delay = 0;              ///< in input steps; 0 where the filter has no linear phase
  std::int64_t channels = 1;
  std::int64_t kept = 1;  ///< steps of the state
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] step_rate rate() const noexcept {
    const std::int64_t common = std::gcd(up, down);
    return {.divisor = down / common, .offset = down / common - 1, .multiplier = up / common};
  }
  [[nodiscard]] bool complex_taps() const noexcept { return !taps_imag.empty(); }
  [[nodiscard]] std::int64_t length() const noexcept { return static_cast<std::int64_t>(taps.size()); }
  /// The most taps that meet a step in one output.
  [[nodiscard]] std::int64_t phase_taps() const noexcept { return (length() + up - 1) / up; }
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return static_cast<std::size_t>(kept * channels) * size_of(input.type);
  }
};

/// Where an output stands: its newest step, and the tap that meets it.
struct resample_place {
  std::int64_t step;
  std::int64_t phase;
};

/// Where the outputs of a frame begin.
struct resample_begin {
  std::int64_t step;    ///< of the frame's first, above a multiple of `down`
  std::int64_t output;  ///< the frame's first, counted from that multiple

  /// Of output `index` of the frame; the step counts from the frame's first.
  [[nodiscard]] PENSTOCK_HOST_DEVICE constexpr resample_place place(std::int64_t index, std::int64_t up,
                                                                    std::int64_t down) const noexcept {
    const std::int64_t fine = (output + index) * down;
    return {fine / up - step, fine % up};
  }
};

/// Of a frame at `position`.
[[nodiscard]] PENSTOCK_HOST_DEVICE constexpr resample_begin resample_begin_of(std::int64_t position, std::int64_t up,
                                                                              std::int64_t down) noexcept {
  const std::int64_t step = position % down;
  return {step, (step * up + down - 1) / down};
}

/// Throws parameter_error.
[[nodiscard]] resample_settings parse_resample(const parameters& settings, const tensor_spec& input);

[[nodiscard]] inline std::optional<session_traits> resample_session(const parameters& settings,
                                                                    std::span<const tensor_spec> inputs) {
  const resample_settings parsed = parse_resample(settings, sole_input("resample", inputs));
  return session_traits{.whole_frames = false, .rate = parsed.rate(), .delay = parsed.delay};
}

[[nodiscard]] std::unique_ptr<operation> make_resample_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_resample_cuda(const operation_request& request);

}  // namespace penstock
