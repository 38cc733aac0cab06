#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operation.hpp"

namespace penstock {

/// concat: the inputs one behind the other along one axis of the frame.
///
/// Inputs: two or more of one element type, any; of the same shape but for their extents along `axis`. Inputs with a
/// leading "max N" are all of the same N, and then `axis` isn't the leading one.
/// Output: their shape, with the sum of their extents along `axis`.
/// Parameters:
///   axis  integer, default 0, an axis of the frame; negative ones count from the last, −1
/// Elements are copied as they are.
struct concat_settings {
  /// Of each input: bytes that lie together in it, and in the output; the same for every leading extent.
  std::vector<std::size_t> chunks;
  std::size_t pitch = 0;  ///< their sum: bytes from one run of the output to the next
  /// Extents between the leading one and `axis`, multiplied; runs of a frame where `axis` is the leading one.
  std::int64_t inner = 1;
  std::int64_t leading = 1;  ///< of a frame, where it isn't variable; 1 where `axis` is the leading one
  tensor_spec output;

  /// Runs (one chunk of each input) in all frames of the batch together.
  [[nodiscard]] std::int64_t runs(const batch_extent& extent) const noexcept {
    return extent.frames * inner * (output.variable ? extent.leading : leading);
  }
};

/// Throws parameter_error.
[[nodiscard]] concat_settings parse_concat(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] tensor_spec infer_concat(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_concat_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_concat_cuda(const operation_request& request);

}  // namespace penstock
