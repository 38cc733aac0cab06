#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/operation.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// The rows of a tensor along one of its axes. In a batch there are outer · inner of them: each of the `inner` that
/// begin beside each other has its elements `inner` apart.
struct axis_rows {
  tensor_spec input;
  std::size_t axis = 0;

  [[nodiscard]] bool is_last() const noexcept { return axis + 1 == input.shape.size(); }
  /// One of them, as a frame of its own.
  [[nodiscard]] tensor_spec row() const {
    return {.type = input.type, .shape = {input.shape[axis]}, .variable = input.variable && axis == 0};
  }
  /// Elements of a row in this batch.
  [[nodiscard]] std::int64_t length(const batch_extent& extent) const noexcept {
    return input.variable && axis == 0 ? extent.leading : input.shape[axis];
  }
  [[nodiscard]] std::int64_t outer(const batch_extent& extent) const noexcept {
    std::int64_t count = extent.frames;
    for (std::size_t before = 0; before < axis; ++before) {
      count *= input.variable && before == 0 ? extent.leading : input.shape[before];
    }
    return count;
  }
  [[nodiscard]] std::int64_t inner() const noexcept {
    std::int64_t count = 1;
    for (std::size_t behind = axis + 1; behind < input.shape.size(); ++behind) {
      count *= input.shape[behind];
    }
    return count;
  }
};

/// An operator that works on rows. Its parse_NAME and make_NAME_… know the last axis only; what is here lets its rows
/// lie along the axis that the parameter `axis` names, the last by default, which it must be with several inputs.
///
/// On the host a few rows at a time are put together in the scratch, where they stay in the cache; on CUDA all of them,
/// by a transposition before the operator and, if its results lie along the axis, one behind it.
struct row_operator {
  std::string_view name;
  /// Its results lie along the axis, where the row was; else they are the last axes of the output, behind the input's
  /// others.
  bool keeps_axis = false;
  tensor_spec (*infer)(const parameters& settings, std::span<const tensor_spec> inputs) = nullptr;
  make_operation make = nullptr;
};

/// Throws parameter_error.
[[nodiscard]] tensor_spec infer_along_axis(const row_operator& rows, const parameters& settings,
                                           std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_along_axis_host(const row_operator& rows,
                                                              const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_along_axis_cuda(const row_operator& rows,
                                                              const operation_request& request);

}  // namespace penstock
