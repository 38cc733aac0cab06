#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/frame_rows.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// window: y[..., k] = w[k] · x[..., k] along the last axis; w as in window_function.hpp, rounded to f32.
///
/// Input: f32 or cf32, any shape whose last extent is fixed. Output: the input's spec.
/// Parameters:
///   window  "hann" (default) | "hamming" | "blackman" | "rectangular"; all periodic.
/// NaN and infinities stay where they are (an infinity at w[k] = 0 gives NaN).
struct window_settings {
  std::vector<float> coefficients;  ///< one for each element of a row
  frame_rows rows;
  tensor_spec input;
  tensor_spec output;
};

/// Throws parameter_error.
[[nodiscard]] window_settings parse_window(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_window(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_window_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_window_cuda(const operation_request& request);

}  // namespace penstock
