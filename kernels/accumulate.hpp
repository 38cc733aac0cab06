#pragma once

#include <memory>
#include <span>

#include "kernels/operation.hpp"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// accumulate: mean or maximum over the last K steps of a session, this one included, for each channel.
///
///   y[n] = mean or max of x[max(0, n-K+1)] … x[n], n counting the session's steps from its start
/// Means are summed in float64, afresh for every window, so nothing drifts.
///
/// Input: f32, any shape; fixed when it goes along frames. Output: the input's spec.
/// Keeps K - 1 steps a session (one for K = 1).
/// Parameters:
///   frames  integer, 1 … 4096: K; required
///   kind    "mean" (default) or "peak"
///   along   "frames" (default): a step is a frame, each of its elements a channel; "rows": a step is an index of the
///           first dimension
/// A NaN in the window makes the result NaN, with "peak" too; it leaves with its step.
struct accumulate_settings {
  sliding_window window;
  bool peak = false;
};

/// Throws parameter_error.
[[nodiscard]] accumulate_settings parse_accumulate(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_accumulate(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] session_traits accumulate_session(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_accumulate_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_accumulate_cuda(const operation_request& request);

}  // namespace penstock
