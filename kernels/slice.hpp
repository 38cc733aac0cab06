#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/along_axis.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"
#include "kernels/transpose.hpp"

namespace penstock {

/// slice: a range of an axis, every `step`-th index of it, as x[start:stop:step] in numpy; or one index of it,
/// x[index].
///
/// Input: any type and shape; the axis is not "max N".
/// Output: the input with ceil((stop − start) / step) indices along the axis; with `index` without that axis, or [1]
/// where it has no other.
/// Parameters:
///   index  integer: the one index that is kept; not beside `start`, `stop` and `step`
///   start  integer, default 0: the first index
///   stop   integer, default the axis's extent: the index behind the last
///   step   integer from 1, default 1
///   axis   integer, default −1; negative ones count from the last, −1
/// Negative `index`, `start` and `stop` count from the end of the axis. All lie within it, start before stop.
/// Elements are copied as they are.
struct slice_settings {
  axis_rows rows;  ///< of the input
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t kept = 1;  ///< indices along the axis
  tensor_spec output;

  [[nodiscard]] transposition copy(const batch_extent& extent) const noexcept {
    const std::int64_t inner = rows.inner();
    const std::int64_t length = rows.length(extent);
    return joined(
        {.count = 3,
         .dimensions = {
             {rows.outer(extent), length * inner, kept * inner}, {kept, step * inner, inner}, {inner, 1, 1}}});
  }
  /// Bytes into a batch.
  [[nodiscard]] std::int64_t offset() const noexcept {
    return start * rows.inner() * static_cast<std::int64_t>(size_of(output.type));
  }
};

/// From −extent to `most`.
[[nodiscard]] inline std::int64_t parse_place(const parameters& settings, std::string_view key, std::int64_t absent,
                                              std::int64_t extent, std::int64_t most) {
  const std::int64_t place = settings.integer(key, absent);
  if (place < -extent || place > most) {
    throw parameter_error(std::string{key}, "must lie within the axis of " + std::to_string(extent) + ", from " +
                                                std::to_string(-extent) + " to " + std::to_string(most) + ", not " +
                                                std::to_string(place));
  }
  return place < 0 ? place + extent : place;
}

/// Leaves the axis out of the output.
inline void parse_index(const parameters& settings, std::int64_t extent, slice_settings& parsed) {
  for (const char* const key : {"start", "stop", "step"}) {
    if (settings.has(key)) {
      throw parameter_error(key, "is of a range, and 'index' keeps one index: leave out one of them");
    }
  }
  parsed.start = parse_place(settings, "index", 0, extent, extent - 1);
  parsed.output.shape.erase(parsed.output.shape.begin() + static_cast<std::ptrdiff_t>(parsed.rows.axis));
  if (parsed.output.shape.empty()) {
    parsed.output.shape.push_back(1);
  }
}

/// Throws parameter_error.
[[nodiscard]] inline slice_settings parse_slice(const parameters& settings, const tensor_spec& input) {
  slice_settings parsed{.rows = {input, parse_axis(settings, input, -1)}, .output = input};
  if (input.variable && parsed.rows.axis == 0) {
    throw parameter_error("axis", "must be one behind the leading \"max N\" of " + input.text());
  }
  const std::int64_t extent = input.shape[parsed.rows.axis];
  if (settings.has("index")) {
    parse_index(settings, extent, parsed);
    return parsed;
  }
  parsed.start = parse_place(settings, "start", 0, extent, extent);
  const std::int64_t stop = parse_place(settings, "stop", extent, extent, extent);
  parsed.step = parse_integer(settings, "step", 1, (std::int64_t{1} << 31) - 1, 1);
  if (parsed.start >= stop) {
    throw parameter_error("stop",
                          "must be behind 'start', " + std::to_string(parsed.start) + ", not " + std::to_string(stop));
  }
  parsed.kept = (stop - parsed.start + parsed.step - 1) / parsed.step;
  parsed.output.shape[parsed.rows.axis] = parsed.kept;
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_slice_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_slice_cuda(const operation_request& request);

}  // namespace penstock
