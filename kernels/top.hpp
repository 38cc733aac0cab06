#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// top: the K largest elements of each row and where they stand; with K = 1 the row's argmax and maximum.
///
/// Input: f32; a row has at most 2^24 elements, so that f32 holds every index exactly. It may be "max N".
/// Output: f32 [..., K, 2]: (index, value), the largest first, of equal ones that of the lower index. If "max N" is the
/// last axis, the output does not have it.
/// Parameters:
///   count     K, an integer from 1 to 1024, default 1
///   smallest  boolean, default false: the K smallest, the smallest first
///   axis      along_axis.hpp
/// A NaN is never listed; entries without an element are (−1, 0). Values and indices are exact.
struct top_settings {
  std::int64_t count = 1;  ///< K
  bool smallest = false;
  frame_rows rows;  ///< of the input
  tensor_spec output;

  /// Floats of the output for each row of the input.
  [[nodiscard]] std::int64_t row_results() const noexcept { return 2 * count; }
};

inline constexpr std::int64_t max_top_row = std::int64_t{1} << 24;
inline constexpr std::int64_t max_top_count = 1024;

/// Throws parameter_error.
[[nodiscard]] inline top_settings parse_top(const parameters& settings, const tensor_spec& input) {
  require_element_type("top", input, {element_type::f32});
  if (input.shape.back() > max_top_row) {
    throw parameter_error("from", "'top' takes rows of at most 16777216 elements, not " + input.text());
  }
  top_settings parsed;
  parsed.count = parse_integer(settings, "count", 1, max_top_count, 1);
  parsed.smallest = settings.flag("smallest", false);
  parsed.rows = frame_rows{input};
  parsed.output = input;
  parsed.output.variable = input.variable && !parsed.rows.has_variable_length();
  parsed.output.shape.back() = parsed.count;
  parsed.output.shape.push_back(2);
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_top_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_top_cuda(const operation_request& request);

}  // namespace penstock
