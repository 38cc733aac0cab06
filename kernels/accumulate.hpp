#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// accumulate: mean or maximum over the last K steps of a session, this one included, for each channel.
///
///   y[n] = mean or max of x[max(0, n-K+1)] … x[n], n counting the session's steps from its start
/// Means are summed in float64, anew for every window, so nothing drifts.
///
/// Input: f32, any shape; fixed for along = "frames". Output: the input's spec.
/// State: K - 1 steps (one for K = 1).
/// Parameters:
///   frames  integer, 1 … 4096: K; required
///   kind    "mean" (default) or "peak"
///   along   "frames" (default): a step is a frame, each of its elements a channel; "rows": a step is an index of the
///           first dimension
/// A NaN in the window makes the result NaN, with "peak" too; it leaves with its step.
struct accumulate_settings {
  sliding_window window;
  bool peak = false;
  tensor_spec output;
};

/// Throws parameter_error.
[[nodiscard]] inline accumulate_settings parse_accumulate(const parameters& settings, const tensor_spec& input) {
  require_element_type("accumulate", input, {element_type::f32});
  accumulate_settings parsed;
  parsed.window = {.length = parse_integer(settings, "frames", 1, 4096),
                   .includes_current = true,
                   .whole_frames = parse_choice(settings, "along", {"frames", "rows"}) == 0,
                   .input = input};
  parsed.output = input;
  parsed.peak = parse_choice(settings, "kind", {"mean", "peak"}) == 1;
  if (parsed.window.whole_frames && input.variable) {
    throw parameter_error(
        "along", "= \"frames\" needs frames of one fixed shape, not " + input.text() + "; \"rows\" takes them");
  }
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> accumulate_session(const parameters& settings,
                                                                      std::span<const tensor_spec> inputs) {
  return session_traits{.whole_frames = parse_accumulate(settings, inputs[0]).window.whole_frames, .rate = {}};
}

[[nodiscard]] std::unique_ptr<operation> make_accumulate_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_accumulate_cuda(const operation_request& request);

}  // namespace penstock
