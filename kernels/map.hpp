#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/map_expression.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// map: one expression for each element, in single precision.
///
/// Inputs: 1 to 8. An input has the shape of the first one, or its trailing extents, which then repeat. Integers become
/// f32, complex integers complex numbers of their raw values. Output: the shape of the first input.
/// Parameters:
///   expr    the expression, such as "log10(max(re*re + im*im, 1e-20))"; docs/operators.md has its grammar
///   inputs  { NAME = "STAGE" }: other names for what the stage reads
///   values  { NAME = number }; each of them is tunable
///   output  { dtype }: f32 or cf32, or u8, i8, i16 or i32, rounded and held within their range; default: cf32 if the
///           expression is complex, else f32
///
/// An expression calls an input by the name of its stage or as `inputs` does, the only input x, and its parts re and im
/// where it is complex. i0, i1, … are the element's place in its frame; n0, n1, … the frame's extents.
///
/// Who reads a map alone may take it in: "fused" then has the parameters of such maps by their stages' names. What it
/// computes stays the same, as the steps do.
struct map_settings {
  std::vector<tensor_spec> inputs;
  tensor_spec output;
  std::vector<map_step> steps;
  map_value result;         ///< with an imaginary part if the output is complex
  std::size_t numbers = 0;  ///< of `values` in operation_arguments::numbers; 0 if the stage is not tuned

  /// Whether an input has the trailing extents of a frame alone: it is read more than once.
  [[nodiscard]] bool repeats(std::size_t input) const noexcept {
    return inputs[input].shape.size() != inputs.front().shape.size();
  }
  [[nodiscard]] bool goes_over_once() const noexcept;
};

/// `settings` also has what the check of a pipeline adds: "from", the names of the stages that the map reads, in a map
/// that took others in "sources", those of its inputs, and of a tuned stage "tuned". Throws parameter_error.
[[nodiscard]] map_settings parse_map(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] tensor_spec infer_map(const parameters& settings, std::span<const tensor_spec> inputs);

/// Its `values`.
[[nodiscard]] std::vector<tunable_number> map_numbers(const parameters& settings, std::span<const tensor_spec> inputs);

/// `settings` of a map with its inputs' names.
[[nodiscard]] parameters map_with_names(const parameters& settings, const std::vector<std::string>& from);

/// The map as a `kernel` stage: CUDA C++ and how it is launched. Throws parameter_error.
[[nodiscard]] parameters map_kernel(const parameters& settings, std::span<const tensor_spec> inputs);

[[nodiscard]] std::unique_ptr<operation> make_map_host(const operation_request& request);

}  // namespace penstock
