#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/fault.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// A copy of elements whose axes have another order in the target than in the source.
struct transposition {
  static constexpr std::size_t most_axes = 8;  ///< six extents, the frames of a batch, and one to spare

  /// Strides are in elements.
  struct dimension {
    std::int64_t size = 1;
    std::int64_t from_stride = 0;
    std::int64_t to_stride = 0;
  };

  std::size_t count = 0;
  dimension dimensions[most_axes]{};  // no std::array: kernels read it

  /// The elements that it copies.
  [[nodiscard]] std::int64_t elements() const noexcept {
    std::int64_t product = 1;
    for (std::size_t at = 0; at < count; ++at) {
      product *= dimensions[at].size;
    }
    return product;
  }
};

/// The same copy without dimensions of 1, and with neighbours as one that are neighbours on both sides.
[[nodiscard]] inline transposition joined(const transposition& copy) noexcept {
  transposition made;
  for (std::size_t at = 0; at < copy.count; ++at) {
    const transposition::dimension& next = copy.dimensions[at];
    if (next.size == 1) {
      continue;
    }
    if (made.count != 0) {
      transposition::dimension& last = made.dimensions[made.count - 1];
      if (last.from_stride == next.size * next.from_stride && last.to_stride == next.size * next.to_stride) {
        last = {last.size * next.size, next.from_stride, next.to_stride};
        continue;
      }
    }
    made.dimensions[made.count++] = next;
  }
  return made;
}

/// Of a row-major source of these sizes; axis i of the target, which is row-major too, is axis order[i] of the source.
[[nodiscard]] inline transposition transposition_of(std::span<const std::int64_t> sizes,
                                                    std::span<const std::size_t> order) noexcept {
  std::array<std::int64_t, transposition::most_axes> from_strides{};
  std::int64_t stride = 1;
  for (std::size_t at = sizes.size(); at-- > 0;) {
    from_strides[at] = stride;
    stride *= sizes[at];
  }
  transposition made{.count = order.size()};
  stride = 1;
  for (std::size_t at = order.size(); at-- > 0;) {
    made.dimensions[at] = {sizes[order[at]], from_strides[order[at]], stride};
    stride *= sizes[order[at]];
  }
  return joined(made);
}

/// In host memory; elements of 1, 2, 4 or 8 bytes, to which the pointers are aligned. Elements
/// of the last dimension lie together in the target.
void transpose(const void* from, void* to, const transposition& copy, std::size_t element) noexcept;
/// Enqueues it in device memory. All dimensions are joined, in the order in which they lie in the target, whose
/// elements lie together. The CUDA module only.
[[nodiscard]] fault enqueue_transpose(void* stream, std::int64_t multiprocessors, const void* from, void* to,
                                      const transposition& copy, std::size_t element) noexcept;

/// transpose: the axes of a frame in another order, as numpy.transpose.
///
/// Input: any type and shape. Output: axis i is axis `axes`[i] of the input.
/// Parameters:
///   axes  a list of each axis of the input once, negative ones counted from the last, −1; default: in reverse. A
///         leading "max N" stays the first.
/// Elements are copied as they are.
struct transpose_settings {
  std::vector<std::size_t> order;  ///< by axis of the output: that of the input
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] transposition copy(const batch_extent& extent) const noexcept {
    std::array<std::int64_t, transposition::most_axes> sizes{extent.frames};
    std::array<std::size_t, transposition::most_axes> places{0};
    for (std::size_t at = 0; at < order.size(); ++at) {
      sizes[at + 1] = at == 0 && input.variable ? extent.leading : input.shape[at];
      places[at + 1] = order[at] + 1;
    }
    return transposition_of({sizes.data(), order.size() + 1}, {places.data(), order.size() + 1});
  }
};

[[nodiscard]] inline std::vector<std::size_t> parse_axes(const parameters& settings, const tensor_spec& input) {
  const std::size_t count = input.shape.size();
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  if (!settings.has("axes")) {
    return order;
  }
  const std::vector<double> given = settings.numbers("axes");
  std::vector<bool> seen(count);
  const auto wrong = [&] {
    return parameter_error("axes", "must have each of the " + std::to_string(count) + " axes of " + input.text() +
                                       " once, 0 to " + std::to_string(count - 1) + " or from the last, -1");
  };
  if (given.size() != count) {
    throw wrong();
  }
  for (std::size_t at = 0; at < count; ++at) {
    const double place = given[at] < 0.0 ? given[at] + static_cast<double>(count) : given[at];
    if (!(place >= 0.0 && place < static_cast<double>(count)) || place != std::floor(place) ||
        seen[static_cast<std::size_t>(place)]) {
      throw wrong();
    }
    order[at] = static_cast<std::size_t>(place);
    seen[order[at]] = true;
  }
  return order;
}

/// Throws parameter_error.
[[nodiscard]] inline transpose_settings parse_transpose(const parameters& settings, const tensor_spec& input) {
  if (input.shape.size() + 1 > transposition::most_axes) {
    throw parameter_error("from", "'transpose' takes at most " + std::to_string(transposition::most_axes - 1) +
                                      " axes, not " + input.text());
  }
  transpose_settings parsed{.order = parse_axes(settings, input), .input = input, .output = input};
  if (input.variable && parsed.order.front() != 0) {
    throw parameter_error("axes", "must keep the leading \"max N\" of " + input.text() + " first");
  }
  for (std::size_t at = 0; at < parsed.order.size(); ++at) {
    parsed.output.shape[at] = input.shape[parsed.order[at]];
  }
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_transpose_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_transpose_cuda(const operation_request& request);

}  // namespace penstock
