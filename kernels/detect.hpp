#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

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
/// Parameters; thresholds are rounded to f32:
///   high        number, finite in f32, required, in the unit of the samples
///   low         number, finite in f32, at most `high`, default `high`
///   max_events  integer 1 … 65536, default 64
///   axis        along_axis.hpp
/// A NaN is neither ≥ high nor < low, and never a peak. An infinity is a sample like others. Indices and values are
/// exact.
struct detect_settings {
  float high = 0.0F;
  float low = 0.0F;
  std::int64_t max_events = 64;
  frame_rows rows;  ///< of the input
  tensor_spec output;

  /// Floats of the output for each row of the input.
  [[nodiscard]] std::int64_t row_results() const noexcept { return 2 * (max_events + 1); }
};

inline constexpr std::int64_t max_detect_row = std::int64_t{1} << 24;
inline constexpr std::int64_t max_detect_events = 65536;

[[nodiscard]] inline std::int64_t parse_max_events(const parameters& settings) {
  const std::int64_t most = settings.integer("max_events", 64);
  if (most < 1 || most > max_detect_events) {
    throw parameter_error("max_events", "must be from 1 to 65536, not " + std::to_string(most));
  }
  return most;
}

/// Throws parameter_error.
[[nodiscard]] inline detect_settings parse_detect(const parameters& settings, const tensor_spec& input) {
  require_element_type("detect", input, {element_type::f32});
  if (input.shape.back() > max_detect_row) {
    throw parameter_error("from", "'detect' takes rows of at most 16777216 samples, not " + input.text());
  }
  detect_settings parsed;
  const double high = settings.number("high");
  const double low = settings.number("low", high);
  parsed.high = parse_f32("high", high);
  parsed.low = parse_f32("low", low);
  if (low > high) {
    throw parameter_error("low", "must be at most 'high'");
  }
  parsed.max_events = parse_max_events(settings);
  parsed.rows = frame_rows{input};
  parsed.output = input;
  parsed.output.variable = input.variable && !parsed.rows.has_variable_length();
  parsed.output.shape.back() = parsed.max_events + 1;
  parsed.output.shape.push_back(2);
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_detect_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_detect_cuda(const operation_request& request);

}  // namespace penstock
