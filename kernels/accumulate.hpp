#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/invalid_samples.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// accumulate: mean or maximum over the last K steps of a session, this one included, for each channel.
///
///   y[n] = mean or max of x[max(0, n-K+1)] … x[n], n counting the session's steps from its start
/// Means are summed in float64, anew for every window, so nothing drifts.
///
/// Input: f32, any shape; fixed for along = "frames". Output: the input's spec; with `every` of E one result for E
/// steps, those at n = E − 1, 2·E − 1, …: [N / E, ...] for a fixed N, a multiple of E, and at most ⌈N / E⌉ for "max N".
/// State: K - 1 steps (one for K = 1).
/// Parameters:
///   frames  integer, 1 … 4096: K; required
///   kind    "mean" (default) or "peak"
///   along   "frames" (default): a step is a frame, each of its elements a channel; "rows": a step is an index of the
///           first dimension, or of `axis`
///   every   integer, 1 … 2³¹ − 1, default 1: E; above 1 only along "rows"
///   on_nan  what an invalid step, a NaN or an infinity, does to its channel:
///           "spread" (default): a NaN in the window makes the result NaN, with "peak" too; it leaves with its step
///           "reset": the window begins behind the last invalid step
///           "hold":  the window has the others of its steps
///           With "reset" and "hold" the result is NaN where the window has no step. On CUDA each window is then folded
///           by itself.
///   axis    along_axis.hpp; only along "rows"
struct accumulate_settings {
  sliding_window window;
  bool peak = false;
  std::int64_t every = 1;
  invalid_samples on_nan = invalid_samples::spread;
  tensor_spec output;

  [[nodiscard]] step_rate rate() const noexcept { return {every, 0}; }
  /// Whether to compute the result of each step, of which the wanted ones are then picked, rather than each wanted
  /// window by itself: where each step is in many of these.
  [[nodiscard]] bool picks() const noexcept { return every > 1 && window.length > 8 * every; }
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
  parsed.on_nan = parse_on_nan(settings);
  if (parsed.window.whole_frames && input.variable) {
    throw parameter_error("along",
                          "\"frames\" needs frames of one fixed shape, not " + input.text() + "; \"rows\" takes them");
  }
  if (parsed.window.whole_frames && settings.has("axis")) {
    throw parameter_error("axis", "is for along = \"rows\": with \"frames\" a step is a whole frame");
  }
  parsed.every = settings.integer("every", 1);
  if (parsed.every < 1 || parsed.every > std::numeric_limits<std::int32_t>::max()) {
    throw parameter_error("every", "must be from 1 to 2147483647 steps, not " + std::to_string(parsed.every));
  }
  if (parsed.every > 1) {
    const std::int64_t steps = input.shape.front();
    if (parsed.window.whole_frames) {
      throw parameter_error("every",
                            "above 1 needs along = \"rows\": a frame of several steps gives one result for "
                            "so many of them");
    }
    if (!input.variable && steps % parsed.every != 0) {
      throw parameter_error("every", "must divide the " + std::to_string(steps) + " steps of " + input.text() +
                                         ", or the input be \"max " + std::to_string(steps) + "\"");
    }
    parsed.output.shape.front() = parsed.rate().most(steps);
  }
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> accumulate_session(const parameters& settings,
                                                                      std::span<const tensor_spec> inputs) {
  const accumulate_settings parsed = parse_accumulate(settings, inputs[0]);
  return session_traits{.whole_frames = parsed.window.whole_frames, .rate = parsed.rate()};
}

[[nodiscard]] std::unique_ptr<operation> make_accumulate_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_accumulate_cuda(const operation_request& request);

}  // namespace penstock
