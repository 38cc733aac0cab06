#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/fir.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/session.hpp"

namespace penstock {

/// channelize: divides the band of a session into M channels of equal distance by a polyphase filter bank, and keeps
/// one output of each for every D steps.
///
///   y[m, c] = sum over k = 0 … K − 1 of h[k] · x[t − k] · exp(−2πj · c · (t + D + 1 − k) / M),   t = (m + 1)·D − 1
///   x = 0 before the session's first step
/// that is: channel c, whose centre is at c / M of the sample rate (from M / 2 on at c / M − 1), is mixed to 0,
/// filtered by h and decimated by D. D = M is critical sampling; a smaller D oversamples. Equal to GNU Radio's
/// pfb_channelizer_ccf with M / D as its oversample rate, where its channel map is the plain one (F. J. Harris,
/// C. Dick, M. Rice, Digital receivers and transmitters using polyphase filter banks, IEEE Trans. Microwave Theory
/// Tech. 51, 2003). Results do not depend on how the session is cut into frames.
/// Without taps, h is scipy.signal.firwin(20·M + 1, 1 / M, window = ("kaiser", 5.0)).
/// The products are summed in f32, one transform of M values makes the channels of an output. Each output is within
/// 1e-6 of the sum |h| times the peak of its own K steps.
///
/// Input: f32 or cf32, [N, inputs...]; N may be "max N". Steps run along the first dimension; each input, such as an
/// antenna, is divided by itself.
/// Output: cf32, [N / D, inputs..., M] for a fixed N, which must be a multiple of D, and [max ⌈N / D⌉, inputs..., M]
/// for "max N". Parameters:
///   channels  M, integer, 2 … 65536, required
///   hop       D, integer, 1 … M, default M
///   taps      1 to 64·M numbers, finite in f32, at most 65536; default: as above, for M up to 16384
///   axis      along_axis.hpp
/// State: the last K − 1 steps (at least one).
/// A NaN or an infinity reaches all channels of the outputs whose taps meet it.
struct channelize_settings {
  std::int64_t channels = 2;
  std::int64_t hop = 2;
  std::vector<float> taps;
  double delay = 0;  ///< in input steps; 0 where the filter has no linear phase
  std::int64_t inputs = 1;
  std::int64_t kept = 1;  ///< steps of the state
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] step_rate rate() const noexcept { return {.divisor = hop, .offset = 0}; }
  [[nodiscard]] std::int64_t length() const noexcept { return static_cast<std::int64_t>(taps.size()); }
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return static_cast<std::size_t>(kept * inputs) * size_of(input.type);
  }
};

/// Output `index` of a frame at `position`: its newest step, from the frame's first, and the place among the M values
/// of the transform at which that step goes; older ones go to the places after it, in a circle. The transform is
/// sum over p of v[p] · exp(2πj · c · p / M).
struct channelize_place {
  std::int64_t newest;
  std::int64_t place;
};
[[nodiscard]] PENSTOCK_HOST_DEVICE constexpr channelize_place channelize_place_of(std::int64_t position,
                                                                                  std::int64_t index,
                                                                                  std::int64_t channels,
                                                                                  std::int64_t hop) noexcept {
  const std::int64_t output = position / hop + index;
  const std::int64_t turned = (output % channels + 2) * hop % channels;  // t + D + 1, modulo M
  return {(index + 1) * hop - 1 - position % hop, (channels - turned) % channels};
}

/// scipy.signal.firwin(count, cutoff, window = ("kaiser", beta)): a low-pass filter whose taps sum to 1. `cutoff` is a
/// fraction of half the sample rate.
[[nodiscard]] std::vector<double> kaiser_low_pass(std::int64_t count, double cutoff, double beta);

/// Throws parameter_error.
[[nodiscard]] channelize_settings parse_channelize(const parameters& settings, const tensor_spec& input);

[[nodiscard]] inline std::optional<session_traits> channelize_session(const parameters& settings,
                                                                      std::span<const tensor_spec> inputs) {
  const channelize_settings parsed = parse_channelize(settings, sole_input("channelize", inputs));
  return session_traits{.whole_frames = false, .rate = parsed.rate(), .delay = parsed.delay};
}

[[nodiscard]] std::unique_ptr<operation> make_channelize_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_channelize_cuda(const operation_request& request);

}  // namespace penstock
