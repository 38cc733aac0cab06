#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// concat: the inputs one after the other along one axis of the frame.
///
/// Inputs: two or more of one element type, any; of the same shape except for the extent along `axis`. Inputs
/// with a leading "max N" all have the same N, and `axis` is not the leading one.
/// Output: their shape, with the sum of their extents along `axis`.
/// Parameters:
///   axis  integer, default 0, an axis of the frame; negative ones count from the last, −1
/// Elements are copied as they are.
struct concat_settings {
  /// Contiguous bytes of each input, in it and in the output; the same for every leading extent.
  std::vector<std::size_t> chunks;
  std::size_t pitch = 0;  ///< sum of the chunks: bytes from one run of the output to the next
  /// Product of the extents between the leading one and `axis`; runs of a frame if `axis` is the leading one.
  std::int64_t inner = 1;
  std::int64_t leading = 1;  ///< leading extent unless variable; 1 if `axis` is the leading one
  tensor_spec output;

  /// Runs (one chunk of each input) in all frames of the batch.
  [[nodiscard]] std::int64_t runs(const batch_extent& extent) const noexcept {
    return extent.frames * inner * (output.variable ? extent.leading : leading);
  }
};

[[nodiscard]] inline std::size_t parse_concat_axis(const parameters& settings, const tensor_spec& input) {
  const std::size_t from_first = parse_axis(settings, input, 0);
  if (input.variable && from_first == 0) {
    throw parameter_error("axis", "must be one behind the leading \"max N\" of " + input.text());
  }
  return from_first;
}

inline void require_concat_inputs(std::size_t axis, const tensor_spec& first, const tensor_spec& other) {
  tensor_spec expected = first;
  if (axis < other.shape.size()) {
    expected.shape[axis] = other.shape[axis];
  }
  if (other != expected) {
    throw parameter_error("from", "'concat' takes inputs of one element type and of one shape but along axis " +
                                      std::to_string(axis) + ", not " + first.text() + " and " + other.text());
  }
}

/// Throws parameter_error.
[[nodiscard]] inline concat_settings parse_concat(const parameters& settings, std::span<const tensor_spec> inputs) {
  require_several_inputs("concat", inputs, std::numeric_limits<std::size_t>::max());
  const tensor_spec& first = inputs.front();
  const std::size_t axis = parse_concat_axis(settings, first);
  concat_settings parsed;
  parsed.output = first;
  parsed.output.shape[axis] = 0;
  std::size_t behind = size_of(first.type);
  for (std::size_t after = axis + 1; after < first.shape.size(); ++after) {
    behind *= static_cast<std::size_t>(first.shape[after]);
  }
  for (const tensor_spec& input : inputs) {
    require_concat_inputs(axis, first, input);
    parsed.output.shape[axis] += input.shape[axis];
    parsed.chunks.push_back(static_cast<std::size_t>(input.shape[axis]) * behind);
    parsed.pitch += parsed.chunks.back();
  }
  parsed.leading = axis == 0 ? 1 : first.shape.front();
  for (std::size_t before = 1; before < axis; ++before) {
    parsed.inner *= first.shape[before];
  }
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_concat_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_concat_cuda(const operation_request& request);

}  // namespace penstock
