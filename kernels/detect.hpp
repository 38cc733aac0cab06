#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/frame_rows.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// detect: the events of each row along the last axis, by a threshold with hysteresis (O. H. Schmitt, J. Sci. Instrum.
/// 15, 1938), each reported by its peak.
///
/// An event starts at the first sample ≥ `high` and ends before the first later sample < `low`, or at the row's end.
/// Its peak is its largest sample, the first of equals.
///
/// Input: f32; the last extent is at most 2^24, so that f32 holds every index exactly. It may be "max N": the events
/// are those of the batch's leading samples.
/// Output: f32 [..., max_events + 1, 2]. Row 0 is (events found, events listed); found may be more than listed. Row
/// 1 + e is (index, value) of the peak of event e, in the order of the row; rows without an event are (−1, 0). A
/// "max N" that is the last axis is gone from the output.
/// Parameters, thresholds being rounded to f32:
///   high        number, finite in f32, required, in the unit of the samples
///   low         number, finite in f32, at most `high`, default `high`
///   max_events  integer 1 … 65536, default 64
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

inline constexpr std::int64_t detect_longest_row = std::int64_t{1} << 24;
inline constexpr std::int64_t detect_most_events = 65536;

/// Throws parameter_error.
[[nodiscard]] detect_settings parse_detect(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_detect(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_detect_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_detect_cuda(const operation_request& request);

}  // namespace penstock
