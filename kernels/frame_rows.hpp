#pragma once

#include <cstdint>

#include "kernels/operation.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// A tensor as rows along its last axis: what the operators that work "along the last axis" see.
///
/// The rows of a batch lie one after the other in memory, frame after frame, each of `length(extent)` elements.
/// In a spec of one dimension the row is the whole frame, so a `variable` one has rows of variable length;
/// with more dimensions a `variable` leading extent changes only how many rows there are.
class frame_rows {
 public:
  frame_rows() = default;
  explicit frame_rows(const tensor_spec& spec) noexcept;

  /// Elements of a row, at most.
  [[nodiscard]] std::int64_t max_length() const noexcept { return length_; }
  /// Elements of each row in this batch.
  [[nodiscard]] std::int64_t length(const batch_extent& extent) const noexcept {
    return variable_length_ ? extent.leading : length_;
  }
  /// Rows in all frames of this batch together.
  [[nodiscard]] std::int64_t count(const batch_extent& extent) const noexcept {
    return extent.frames * inner_ * (variable_count_ ? extent.leading : leading_);
  }
  [[nodiscard]] bool has_variable_length() const noexcept { return variable_length_; }

 private:
  std::int64_t length_ = 0;
  std::int64_t leading_ = 1;  ///< the first extent when it isn't the row itself
  std::int64_t inner_ = 1;    ///< the extents between the first and the last
  bool variable_length_ = false;
  bool variable_count_ = false;
};

}  // namespace penstock
