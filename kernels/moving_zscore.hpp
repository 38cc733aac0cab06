#pragma once

#include <memory>
#include <span>

#include "kernels/operation.hpp"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// moving_zscore: how far each step lies from the steps before it, per channel, in their deviations.
///
///   z[n] = (v[n] - mean) / max(std, floor)     mean and population standard deviation of v[n-W] … v[n-1]
///   z[n] = 0 for n < W
/// n counts the steps (indices of the first dimension) from the session's start, however its frames are cut; W is the
/// window. In float64, so that z stays accurate whatever the mean is: on the host the moments of parts of a window are
/// joined, on CUDA the differences to a step of the window and their squares are summed (T. F. Chan, G. H. Golub, R. J.
/// LeVeque, The American Statistician 37, 1983, have both).
///
/// Input: f32, any shape. Output: the input's shape, f32 scores or u8 flags.
/// Keeps W steps a session.
/// Parameters:
///   window     integer, 2 … 65536: W; required
///   floor      number > 0 in the input's unit, default 1e-4: deviations below it count as it
///   output     "score" (default): z, or "flags": 1 where |z| > threshold, else 0
///   threshold  number > 0, default 4; only with "flags"
/// A NaN or an infinity makes z NaN, and the flag 0, where the window holds it. At a step that is itself NaN or
/// infinite, z is that (an infinity's flag is 1).
struct moving_zscore_settings {
  sliding_window window;
  double floor = 1e-4;
  bool flags = false;
  double threshold = 4.0;
  tensor_spec output;
};

/// Throws parameter_error.
[[nodiscard]] moving_zscore_settings parse_moving_zscore(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_moving_zscore(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] session_traits moving_zscore_session(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_moving_zscore_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_moving_zscore_cuda(const operation_request& request);

}  // namespace penstock
