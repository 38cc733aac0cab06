#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// Those of a frame.
struct detect_thresholds {
  float high;
  float low;
};

/// detect: the events of each row along the last axis, by a threshold with hysteresis (O. H. Schmitt, J. Sci. Instrum.
/// 15, 1938), each reported by its peak.
///
/// An event starts at the first sample ≥ `high` and ends before the first later sample < `low`, or at the row's end.
/// Its peak is its largest sample, the first of equals.
///
/// Input: f32; the last extent is at most 2^24, so that f32 holds every index exactly. It may be "max N": events
/// are searched in the leading samples of the batch.
/// Output: f32 [..., max_events + 1, 2]. Row 0 is (events found, events listed); found may be more than listed. Row
/// 1 + e is (index, value) of the peak of event e, in the order of the row; rows without an event are (−1, 0). If
/// "max N" is the last axis, the output does not have it.
///
/// With along = "session" events are those of a session, along the first dimension of [N, channels...], and each
/// channel is searched by itself. A pause of at most `gap` samples, from the first < low to the next ≥ high, does not
/// end an event, so it is over `gap` samples after its end; what is then shorter than `min_length` is no event. The
/// frame in which an event is over tells of it; one that goes on when the session ends is not told. Output: f64
/// [channels..., max_events + 1, 4]. Row 0 is (events found, events listed, start of the event under way or −1, its
/// largest sample or 0), at the frame's end. Row 1 + e is (start, end, peak, value of the peak), where start, end (the
/// first sample behind the event) and peak count the session's samples: exact up to 2⁵³. Rows without an event are (−1,
/// −1, −1, 0). State: 32 bytes a channel.
///
/// Each sample is compared with the thresholds of its own frame: those that change take an event under way as it is.
///
/// Parameters; thresholds are rounded to f32:
///   high        number, finite in f32, required, in the unit of the samples; tunable
///   low         number, finite in f32, at most `high`, default `high`; tunable
///   max_events  integer 1 … 65536, default 64
///   axis        along_axis.hpp: default the last; along a session the first
///   along       "row" (default) or "session"
///   gap         integer 0 … 2³¹ − 1, default 0, only along a session
///   min_length  integer 1 … 2³¹ − 1, default 1, only along a session
/// A NaN is neither ≥ high nor < low, and never a peak. An infinity is a sample like others. Indices and values are
/// exact.
struct detect_settings {
  float high = 0.0F;
  float low = 0.0F;
  std::int64_t max_events = 64;
  bool along_session = false;
  std::int64_t gap = 0;
  std::int64_t min_length = 1;
  frame_rows rows;  ///< of the input
  tensor_spec input;
  tensor_spec output;

  /// Those of a frame: its own, as detect_numbers names them, if any has.
  [[nodiscard]] detect_thresholds thresholds(const double* numbers, std::int64_t frame) const noexcept {
    return numbers == nullptr
               ? detect_thresholds{high, low}
               : detect_thresholds{static_cast<float>(numbers[2 * frame]), static_cast<float>(numbers[2 * frame + 1])};
  }

  /// Of a session.
  [[nodiscard]] std::int64_t channels() const noexcept { return input.elements() / input.shape.front(); }

  /// Floats of the output for each row of the input.
  [[nodiscard]] std::int64_t row_results() const noexcept { return 2 * (max_events + 1); }
};

/// Where the search of one channel of a session stands.
struct event_state {
  std::int64_t start = -1;
  std::int64_t end = -1;
  std::int64_t peak = -1;
  float value = 0.0F;  ///< of the peak
  std::int32_t phase = 0;

  static constexpr std::int32_t off = 0;
  static constexpr std::int32_t on = 1;       ///< in an event
  static constexpr std::int32_t pausing = 2;  ///< behind an event's end, which may go on
};
static_assert(sizeof(event_state) == 32);

/// Numbers of an event.
inline constexpr std::int64_t event_numbers = 4;

inline constexpr std::int64_t max_detect_row = std::int64_t{1} << 24;
inline constexpr std::int64_t max_detect_events = 65536;

[[nodiscard]] inline std::int64_t parse_max_events(const parameters& settings) {
  const std::int64_t most = settings.integer("max_events", 64);
  if (most < 1 || most > max_detect_events) {
    throw parameter_error("max_events", "must be from 1 to 65536, not " + std::to_string(most));
  }
  return most;
}

[[nodiscard]] inline std::int64_t parse_event_steps(const parameters& settings, const char* name, std::int64_t least,
                                                    bool along_session) {
  const std::int64_t steps = settings.integer(name, least);
  if (steps < least || steps > std::numeric_limits<std::int32_t>::max()) {
    throw parameter_error(
        name, "must be from " + std::to_string(least) + " to 2147483647 samples, not " + std::to_string(steps));
  }
  if (settings.has(name) && !along_session) {
    throw parameter_error(name, "is for events of a session: set along = \"session\"");
  }
  return steps;
}

[[nodiscard]] inline bool runs_along_session(const parameters& settings) {
  return parse_choice(settings, "along", {"row", "session"}) == 1;
}

/// Throws parameter_error.
[[nodiscard]] inline detect_settings parse_detect(const parameters& settings, const tensor_spec& input) {
  require_element_type("detect", input, {element_type::f32});
  detect_settings parsed;
  parsed.along_session = runs_along_session(settings);
  if (!parsed.along_session && input.shape.back() > max_detect_row) {
    throw parameter_error("from", "'detect' takes rows of at most 16777216 samples, not " + input.text());
  }
  const double high = settings.number("high");
  const double low = settings.number("low", high);
  parsed.high = parse_f32("high", high);
  parsed.low = parse_f32("low", low);
  if (low > high) {
    throw parameter_error("low", "must be at most 'high'");
  }
  parsed.max_events = parse_max_events(settings);
  parsed.gap = parse_event_steps(settings, "gap", 0, parsed.along_session);
  parsed.min_length = parse_event_steps(settings, "min_length", 1, parsed.along_session);
  parsed.input = input;
  parsed.output = input;
  if (parsed.along_session) {
    parsed.output.type = element_type::f64;
    parsed.output.variable = false;
    parsed.output.shape.erase(parsed.output.shape.begin());
    parsed.output.shape.push_back(parsed.max_events + 1);
    parsed.output.shape.push_back(event_numbers);
    return parsed;
  }
  parsed.rows = frame_rows{input};
  parsed.output.variable = input.variable && !parsed.rows.has_variable_length();
  parsed.output.shape.back() = parsed.max_events + 1;
  parsed.output.shape.push_back(2);
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> detect_session(const parameters& settings,
                                                                  std::span<const tensor_spec> /*inputs*/) {
  if (!runs_along_session(settings)) {
    return std::nullopt;
  }
  session_traits traits;
  traits.frame_results = true;
  return traits;
}

/// None along rows of another axis than the last. Throws parameter_error.
[[nodiscard]] inline std::vector<tunable_number> detect_numbers(const parameters& settings,
                                                                std::span<const tensor_spec> inputs) {
  if (!runs_along_session(settings) && parse_axis(settings, inputs.front(), -1) + 1 != inputs.front().shape.size()) {
    return {};
  }
  static_cast<void>(parse_detect(settings, inputs.front()));
  const double high = settings.number("high");
  return {{"high", high}, {"low", settings.number("low", high)}};
}

[[nodiscard]] std::unique_ptr<operation> make_detect_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_detect_cuda(const operation_request& request);

}  // namespace penstock
