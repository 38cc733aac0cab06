#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock {

/// What follows the sum.
enum class convolution_activation {
  none,
  relu,      ///< max(x, 0)
  gelu,      ///< its tanh form: x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))
  gelu_erf,  ///< x / 2 · (1 + erf(x / √2))
};

/// How products are computed. f16 and bf16 are also the type of the tensors, which is f32 otherwise; sums are f32. f32
/// is strict: no engine rounds its inputs to TF32.
enum class convolution_compute { f32, tf32, f16, bf16 };

/// A convolution over two axes as networks know it (a cross-correlation): the filters are not flipped. One axis is two
/// with height 1. Pairs are (height, width).
///
/// All tensors are row-major without gaps: x [frames, channels, height, width], y [frames, filters, output_height,
/// output_width], bias [filters]. Weights are [filters, channels / groups, filter_height, filter_width]; those of a
/// transposed one are [channels, filters / groups, filter_height, filter_width].
struct convolution_shape {
  using pair = std::array<std::int64_t, 2>;

  std::int64_t frames = 1;
  std::int64_t channels = 1;
  std::int64_t filters = 1;
  pair size{1, 1};         ///< of x
  pair filter_size{1, 1};  ///< of a filter
  pair stride{1, 1};
  pair padding{0, 0};  ///< zeros before
  pair padding_after{0, 0};
  pair dilation{1, 1};
  std::int64_t groups = 1;
  /// The gradient of a convolution: y is what would be convolved, x the result. padding_after is torch's padding less
  /// its output padding, and may be negative.
  bool transposed = false;
  bool bias = false;
  convolution_activation activation = convolution_activation::none;

  bool operator==(const convolution_shape&) const = default;

  /// Less than one where no filter fits.
  [[nodiscard]] pair output_size() const noexcept {
    pair output{};
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const std::int64_t reach = (filter_size[axis] - 1) * dilation[axis];
      const std::int64_t padded = padding[axis] + padding_after[axis];
      const std::int64_t room = size[axis] + padded - reach - 1;
      output[axis] = transposed ? (size[axis] - 1) * stride[axis] + reach + 1 - padded
                     : room < 0 ? 0
                                : room / stride[axis] + 1;
    }
    return output;
  }
  /// padding_after as libraries take it, who know no output padding: they infer it from the sizes.
  [[nodiscard]] pair library_padding_after() const noexcept {
    return {padding_after[0] < 0 ? 0 : padding_after[0], padding_after[1] < 0 ? 0 : padding_after[1]};
  }
  /// Elements of a frame of x.
  [[nodiscard]] std::int64_t input_elements() const noexcept { return channels * size[0] * size[1]; }
  /// Elements of a frame of y.
  [[nodiscard]] std::int64_t output_elements() const noexcept {
    const pair output = output_size();
    return filters * output[0] * output[1];
  }
  /// Elements of all weights.
  [[nodiscard]] std::int64_t weight_elements() const noexcept {
    return filters * (channels / groups) * filter_size[0] * filter_size[1];
  }
};

}  // namespace penstock
