#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "kernels/held_window.hpp"
#include "kernels/operation.hpp"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// moving_zscore: how far each step lies from the steps before it, per channel, in their deviations.
///
///   z[n] = (v[n] - mean) / max(std, floor)     mean and population standard deviation of v[n-G-W] … v[n-G-1]
///   z[n] = 0 for n < G + W
/// n counts the steps (indices of the first dimension) from the session's start, however its frames are cut; W is the
/// window, G the gap. With `hold` the window stands still at each step whose |z| is above it, and such a step never
/// comes into the window: of step m, v[m] comes into it behind step m + G, unless |z[m]| or |z[m+G]| is above. So a
/// fault does not become what is usual, however long it lasts; a new level that is to stay needs a new session.
/// In float64, so that z stays accurate whatever the mean is: on the host the moments of parts of a window are
/// joined, on CUDA the differences to a step of the window and their squares are summed (T. F. Chan, G. H. Golub, R. J.
/// LeVeque, The American Statistician 37, 1983, have both).
///
/// Input: f32, any shape. Output: the input's shape, f32 scores or u8 flags.
/// Keeps W steps a session; with a gap or `hold` W + 2 G and two, and goes step after step: on CUDA, where a warp takes
/// a channel of a session, such a pipeline is made for many channels and sessions. Parameters:
///   window     integer, 2 … 65536: W; required
///   floor      number > 0 in the input's unit: deviations below it count as it; default: 1e-6 of |mean| or of |v[n]|,
///              whichever is larger, so that no unit matters
///   gap        integer, 0 … 65536: G, default 0
///   hold       number > 0: the level; default: none
///   output     "score" (default): z, or "flags": 1 where |z| > threshold, else 0
///   threshold  number > 0, default 4; only with "flags"
/// A NaN or an infinity makes z NaN, and the flag 0, where the window holds it. At a step that is itself NaN or
/// infinite, z is that (an infinity's flag is 1, and it is above any level; a NaN is above none).
struct moving_zscore_settings {
  sliding_window window;
  deviation_floor floor;
  std::int32_t gap = 0;
  double hold = std::numeric_limits<double>::infinity();
  bool flags = false;
  double threshold = 4.0;
  tensor_spec output;

  /// Whether the window is more than the steps just before.
  [[nodiscard]] bool held() const noexcept { return gap > 0 || !std::isinf(hold); }
  [[nodiscard]] held_window::extent extent() const noexcept {
    return {static_cast<std::int32_t>(window.length), gap, window.channels()};
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return held() ? held_window::words(extent()) * sizeof(std::uint32_t) : window.state_bytes();
  }
};

/// Throws parameter_error.
[[nodiscard]] moving_zscore_settings parse_moving_zscore(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_moving_zscore(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] session_traits moving_zscore_session(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_moving_zscore_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_moving_zscore_cuda(const operation_request& request);

}  // namespace penstock
