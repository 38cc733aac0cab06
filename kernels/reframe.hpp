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

/// reframe: windows of `length` steps of a session, one every `hop` steps, independent of the incoming frames.
///
///   row r of the session = steps r·hop − padding … r·hop − padding + length − 1
/// Steps before the start of the session are zero bytes. An input frame outputs the rows that it completes; the steps
/// of the next row wait for the next frame. Without padding the rows are those of numpy's sliding_window_view(x,
/// length)[::hop].
///
/// Input: any element type, [N, channels...]; N may be "max N". Steps run along the first dimension.
/// Output: [rows, length, channels...] of the same type: N / hop rows for a fixed N, which must be a multiple of hop,
/// and at most ⌈N / hop⌉ for "max N". With a fixed N each frame must complete as many: padding ≥ length − hop.
/// Parameters, in steps:
///   length   integer, 1 … 2³¹ − 1, required
///   hop      integer, 1 … 2³¹ − 1, default length: less makes rows overlap, more leaves steps out
///   padding  integer, 0 … length − 1, default 0: zeros before the session's first step
///   axis     along_axis.hpp
/// State: the last length − 1 steps (at least one).
/// Bytes are copied as they are: NaN payloads too.
struct reframe_settings {
  std::int64_t length = 1;
  std::int64_t hop = 1;
  std::int64_t padding = 0;
  std::int64_t kept = 1;       ///< steps of the state
  std::size_t step_bytes = 0;  ///< of all channels
  std::size_t word = 1;        ///< bytes of the largest machine word, at most 16, that divides a step
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] constexpr step_rate rate() const noexcept { return {hop, hop - length + padding}; }
  /// The first step of the first row that is not complete after `taken` steps of the session.
  [[nodiscard]] PENSTOCK_HOST_DEVICE static std::int64_t start_of(const step_rate& rate, std::int64_t length,
                                                                  std::int64_t taken) noexcept {
    return (rate.total(taken) + 1) * rate.divisor - rate.offset - length;
  }
  [[nodiscard]] std::int64_t start(std::int64_t taken) const noexcept { return start_of(rate(), length, taken); }
};

[[nodiscard]] inline std::int64_t parse_steps(const parameters& settings, const char* name, std::int64_t usual) {
  const std::int64_t steps = settings.integer(name, usual);
  if (steps < 1 || steps > std::numeric_limits<std::int32_t>::max()) {
    throw parameter_error(name, "must be from 1 to 2147483647 steps, not " + std::to_string(steps));
  }
  return steps;
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
  if (!settings.has("length")) {
    throw parameter_error("length", "is missing: the steps of each frame of the output");
  }
  reframe_settings parsed;
  parsed.length = parse_steps(settings, "length", 1);
  parsed.hop = parse_steps(settings, "hop", parsed.length);
  parsed.padding = settings.integer("padding", 0);
  if (parsed.padding < 0 || parsed.padding >= parsed.length) {
    throw parameter_error("padding", "must be from 0 to " + std::to_string(parsed.length - 1) +
                                         ", less than a row of 'length' steps, not " + std::to_string(parsed.padding));
  }
  const std::int64_t steps = input.shape.front();
  if (!input.variable && steps % parsed.hop != 0) {
    throw parameter_error(settings.has("hop") ? "hop" : "length",
                          "must divide the " + std::to_string(steps) + " steps of " + input.text() +
                              ", or the input be \"max " + std::to_string(steps) + "\"");
  }
  if (!input.variable && parsed.rate().begins_late()) {
    throw parameter_error("padding", "must be at least 'length' - 'hop', " +
                                         std::to_string(parsed.length - parsed.hop) + ", so that each frame of " +
                                         input.text() + " completes as many rows, or the input be \"max " +
                                         std::to_string(steps) + "\"");
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
  const reframe_settings parsed = parse_reframe(settings, sole_input("reframe", inputs));
  return session_traits{.whole_frames = false, .rate = parsed.rate(), .delay = static_cast<double>(parsed.length - 1)};
}

[[nodiscard]] std::unique_ptr<operation> make_reframe_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_reframe_cuda(const operation_request& request);

}  // namespace penstock
