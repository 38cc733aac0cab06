#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/convolution.hpp"
#include "kernels/number_file.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// convolve: y = activation(x ⋆ W + b), a layer of a network: a bank of filters over one axis or two, with channels.
/// As networks have it, filters are not flipped.
///
/// Input: f32, f16 or bf16, of a fixed size. Weights with three extents slide over one axis: the input is [L] or [C,
/// L]. Weights with four slide over two: the input is [H, W] or [C, H, W]. Without C there is one channel. Output: the
/// input's type, [K, L'] or [K, H', W']; without K where K is 1 and the input has no C. L' = ⌊(L + padding before and
/// behind - dilation · (S - 1) - 1) / stride⌋ + 1.
/// Parameters:
///   weights     the name of a .npy file: [K, C / groups, S] or [K, C / groups, R, S] of f16, f32 or f64
///   bias        the name of a .npy file: [K]; none by default
///   stride      a whole number from 1, or a list of one for each axis; default 1
///   padding     zeros before and behind each axis, likewise from 0; or "same": with stride 1 the output is as long as
///               the input, and the odd zero lies behind; or "valid" (default): none
///   dilation    like stride: the distance between the numbers of a filter
///   groups      number of groups of channels, default 1; each is convolved with its own part of the filters
///   activation  "none" (default) | "relu" | "gelu": its tanh form, as in matmul | "gelu_erf": y/2 · (1 + erf(y/√2))
///   compute     "f32" (default) | "tf32" | "f16" | "bf16": what x and W are rounded to; sums are in f32. The host
///               computes "tf32" in f32
/// Before the activation each result is within e · √T · max |x| · max |w| of the exact one, with the largest x of its
/// frame, and T = C / groups · R · S: e is 1e-6 of f32, 4e-3 of tf32 and f16, 1e-2 of bf16. b and y are rounded once to
/// the type of the input. A NaN or an infinity in a frame makes results of that frame not finite, and of no other.
struct convolve_settings {
  std::shared_ptr<const number_file> weights;
  std::shared_ptr<const number_file> bias;  ///< nullptr: none
  convolution_compute compute = convolution_compute::f32;
  convolution_shape shape;  ///< of one frame
  tensor_spec input;
  tensor_spec output;

  /// What x and W are rounded to before cuDNN or oneDNN gets them.
  [[nodiscard]] element_type factor_type() const noexcept {
    return compute == convolution_compute::f16    ? element_type::f16
           : compute == convolution_compute::bf16 ? element_type::bf16
                                                  : element_type::f32;
  }
};

/// Bounds of what is counted in a convolution, so that no product of them overflows.
inline constexpr std::int64_t max_convolution_extent = (std::int64_t{1} << 24U) - 1;
inline constexpr std::int64_t max_convolution_elements = (std::int64_t{1} << 31U) - 1;

/// A number of each axis: a whole number for all, or a list. Of one axis the first of the pair is `otherwise`.
[[nodiscard]] inline convolution_shape::pair parse_per_axis(const parameters& settings, const char* key,
                                                            std::size_t axes, std::int64_t least,
                                                            std::int64_t otherwise) {
  const auto* const list = settings.find<std::vector<double>>(key);
  if (list == nullptr) {
    const std::int64_t all = parse_integer(settings, key, least, max_convolution_extent, otherwise);
    return {axes == 1 ? otherwise : all, all};
  }
  const auto allowed = [&](double each) {
    return each >= static_cast<double>(least) && each <= static_cast<double>(max_convolution_extent) &&
           each == static_cast<double>(static_cast<std::int64_t>(each));
  };
  if (list->size() != axes || !std::all_of(list->begin(), list->end(), allowed)) {
    throw parameter_error(key, "must be a whole number from " + std::to_string(least) + ", or a list of " +
                                   std::to_string(axes) + ", one for each axis");
  }
  return {axes == 1 ? otherwise : static_cast<std::int64_t>(list->front()), static_cast<std::int64_t>(list->back())};
}

inline void parse_convolve_padding(const parameters& settings, std::size_t axes, convolution_shape& shape) {
  const auto* const word = settings.find<std::string>("padding");
  if (word == nullptr) {
    shape.padding = parse_per_axis(settings, "padding", axes, 0, 0);
    shape.padding_after = shape.padding;
    return;
  }
  if (*word == "valid") {
    return;
  }
  if (*word != "same") {
    throw parameter_error("padding", "must be \"same\", \"valid\", a whole number from 0 or a list of them");
  }
  if (shape.stride != convolution_shape::pair{1, 1}) {
    throw parameter_error("padding", "\"same\" is for stride 1; give the zeros as numbers");
  }
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t zeros = (shape.filter_size[axis] - 1) * shape.dilation[axis];
    shape.padding[axis] = zeros / 2;
    shape.padding_after[axis] = zeros - zeros / 2;
  }
}

/// Channels and size of the input as the weights make use of it.
inline void use_convolve_input(const tensor_spec& input, std::size_t axes, convolve_settings& parsed) {
  const std::size_t rank = input.shape.size();
  if (input.variable) {
    throw parameter_error("from", "'convolve' takes inputs of a fixed size, not " + input.text() +
                                      "; the stage 'reframe' makes frames of one length");
  }
  if (rank != axes && rank != axes + 1) {
    throw parameter_error("from", "'convolve' with weights of " + parsed.weights->text() + " takes " +
                                      (axes == 1 ? "[L] or [C, L]" : "[H, W] or [C, H, W]") + ", not " + input.text());
  }
  parsed.shape.channels = rank == axes ? 1 : input.shape.front();
  parsed.shape.size = {axes == 1 ? 1 : input.shape[rank - 2], input.shape.back()};
}

inline void use_convolve_weights(const parameters& settings, std::size_t axes, convolve_settings& parsed) {
  const std::vector<std::int64_t>& extents = parsed.weights->shape();
  convolution_shape& shape = parsed.shape;
  shape.filters = extents[0];
  shape.filter_size = {axes == 1 ? 1 : extents[2], extents.back()};
  shape.groups = parse_integer(settings, "groups", 1, max_convolution_extent, 1);
  if (shape.channels % shape.groups != 0 || shape.filters % shape.groups != 0) {
    throw parameter_error("groups", "must divide both C = " + std::to_string(shape.channels) + " and K = " +
                                        std::to_string(shape.filters) + ", the numbers of channels and of filters");
  }
  if (extents[1] != shape.channels / shape.groups) {
    const std::int64_t wanted = shape.channels / shape.groups;
    throw parameter_error("weights", "must have " + std::to_string(wanted) + (wanted == 1 ? " channel" : " channels") +
                                         " (its second extent) for an input of " + parsed.input.text() +
                                         (shape.groups == 1 ? "" : " in " + std::to_string(shape.groups) + " groups") +
                                         ", not " + parsed.weights->text());
  }
}

inline void use_convolve_bias(const parameters& settings, convolve_settings& parsed) {
  if (!settings.has("bias")) {
    return;
  }
  parsed.bias = settings.npy_file("bias");
  parsed.shape.bias = true;
  if (parsed.bias->shape() != std::vector<std::int64_t>{parsed.shape.filters}) {
    throw parameter_error("bias", "must be [" + std::to_string(parsed.shape.filters) + "] for weights of " +
                                      parsed.weights->text() + ", not " + parsed.bias->text());
  }
}

/// Throws parameter_error.
[[nodiscard]] inline convolve_settings parse_convolve(const parameters& settings, const tensor_spec& input) {
  using enum element_type;
  require_element_type("convolve", input, {f32, f16, bf16});
  convolve_settings parsed;
  parsed.input = input;
  parsed.weights = settings.npy_file("weights");
  const std::vector<std::int64_t>& extents = parsed.weights->shape();
  if (extents.size() != 3 && extents.size() != 4) {
    throw parameter_error("weights",
                          "must be [K, C, S] for one axis or [K, C, R, S] for two, not " + parsed.weights->text());
  }
  for (const std::vector<std::int64_t>& each : {extents, input.shape}) {
    if (*std::max_element(each.begin(), each.end()) > max_convolution_extent) {
      throw parameter_error(each == extents ? "weights" : "from", "has an extent that is too large for 'convolve'");
    }
  }
  const std::size_t axes = extents.size() - 2;
  use_convolve_input(input, axes, parsed);
  use_convolve_weights(settings, axes, parsed);
  use_convolve_bias(settings, parsed);
  convolution_shape& shape = parsed.shape;
  shape.stride = parse_per_axis(settings, "stride", axes, 1, 1);
  shape.dilation = parse_per_axis(settings, "dilation", axes, 1, 1);
  parse_convolve_padding(settings, axes, shape);
  shape.activation =
      static_cast<convolution_activation>(parse_choice(settings, "activation", {"none", "relu", "gelu", "gelu_erf"}));
  parsed.compute = static_cast<convolution_compute>(parse_choice(settings, "compute", {"f32", "tf32", "f16", "bf16"}));
  const convolution_shape::pair size = shape.output_size();
  if (size[0] < 1 || size[1] < 1) {
    throw parameter_error("weights", "do not fit into an input of " + input.text() + " with its padding");
  }
  parsed.output = {.type = input.type, .shape = {}};
  if (input.shape.size() != axes || shape.filters != 1) {
    parsed.output.shape.push_back(shape.filters);
  }
  if (axes == 2) {
    parsed.output.shape.push_back(size[0]);
  }
  parsed.output.shape.push_back(size[1]);
  if (parsed.output.elements() > max_convolution_elements || input.elements() > max_convolution_elements) {
    throw parameter_error("", "a frame of input or output has more than 2^31 - 1 numbers");
  }
  return parsed;
}

/// The numbers of parameter `key`, which stay finite as `factor`. Throws parameter_error.
[[nodiscard]] inline std::vector<float> read_convolve_numbers(const number_file& file, const char* key,
                                                              element_type factor) {
  std::vector<float> numbers(static_cast<std::size_t>(file.count()));
  try {
    file.read(0, numbers);
  } catch (const number_file_error& error) {
    throw parameter_error(key, error.what());
  }
  // From here on, numbers are rounded to an infinity.
  const float beyond = factor == element_type::f16    ? 65520.0F
                       : factor == element_type::bf16 ? 0x1.ffp127F
                                                      : std::numeric_limits<float>::infinity();
  if (std::any_of(numbers.begin(), numbers.end(), [beyond](float each) { return !(std::abs(each) < beyond); })) {
    throw parameter_error(
        key, "\"" + file.name() + "\" holds a number that is too large for " + std::string(name_of(factor)));
  }
  return numbers;
}

[[nodiscard]] std::unique_ptr<operation> make_convolve_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_convolve_cuda(const operation_request& request);

}  // namespace penstock
