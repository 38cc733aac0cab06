#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// reframe: the steps of a session in frames of `length`, independent of the incoming frames.
///
///   row r of the session = steps r·length … (r + 1)·length − 1
/// An input frame outputs the rows that it completes; the steps left over wait for the next frame.
///
/// Input: any element type, [N, channels...]; N may be "max N". Steps run along the first dimension.
/// Output: [rows, length, channels...] of the same type: N / length rows for a fixed N, which must be a multiple of
/// length, and at most ⌈N / length⌉ for "max N".
/// Parameters:
///   length  integer, 1 … 2³¹ − 1, required, in steps
/// State: the last length − 1 steps (at least one).
/// Bytes are copied as they are: NaN payloads too.
struct reframe_settings {
  std::int64_t length = 1;
  std::int64_t kept = 1;       ///< steps of the state
  std::size_t step_bytes = 0;  ///< of all channels
  std::size_t word = 1;        ///< bytes of the largest machine word, at most 16, that divides a step
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] step_rate rate() const noexcept { return {length, 0}; }
};

[[nodiscard]] inline std::int64_t parse_reframe_length(const parameters& settings) {
  if (!settings.has("length")) {
    throw parameter_error("length", "is missing: the steps of each frame of the output");
  }
  const std::int64_t length = settings.integer("length", 1);
  if (length < 1 || length > std::numeric_limits<std::int32_t>::max()) {
    throw parameter_error("length", "must be from 1 to 2147483647 steps, not " + std::to_string(length));
  }
  return length;
}

[[nodiscard]] inline std::size_t reframe_word(std::size_t step_bytes) {
  std::size_t word = 1;
  while (word < 16 && step_bytes % (2 * word) == 0) {
    word *= 2;
  }
  return word;
}

/// Throws parameter_error.
[[nodiscard]] inline reframe_settings parse_reframe(const parameters& settings, const tensor_spec& input) {
  reframe_settings parsed;
  parsed.length = parse_reframe_length(settings);
  const std::int64_t steps = input.shape.front();
  if (!input.variable && steps % parsed.length != 0) {
    throw parameter_error("length", "must divide the " + std::to_string(steps) + " steps of " + input.text() +
                                        ", or the input be \"max " + std::to_string(steps) + "\"");
  }
  parsed.kept = std::max<std::int64_t>(parsed.length - 1, 1);
  parsed.step_bytes = input.bytes() / static_cast<std::size_t>(steps);
  parsed.word = reframe_word(parsed.step_bytes);
  parsed.input = input;
  parsed.output = input;
  parsed.output.shape.front() = parsed.length;
  parsed.output.shape.insert(parsed.output.shape.begin(), parsed.rate().most(steps));
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> reframe_session(const parameters& settings,
                                                                   std::span<const tensor_spec> inputs) {
  const step_rate rate = parse_reframe(settings, sole_input("reframe", inputs)).rate();
  return session_traits{.whole_frames = false, .rate = rate, .delay = static_cast<double>(rate.divisor - 1)};
}

[[nodiscard]] std::unique_ptr<operation> make_reframe_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_reframe_cuda(const operation_request& request);

}  // namespace penstock
