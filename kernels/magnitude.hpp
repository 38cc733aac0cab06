#pragma once

#include <memory>
#include <span>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// magnitude: |z| = sqrt(re² + im²), or |z|² = re² + im².
///
/// Input: cf32, any shape. Output: f32, the same shape.
/// Parameters:
///   squared  bool, default false: |z|² instead of |z|.
/// |z| is scaled as hypot is, and so within 4e-7 of itself over all of f32's range; |z|² leaves that range where parts
/// are beyond 1.8e19 or below 1.1e-19. A NaN in either part gives NaN.
struct magnitude_settings {
  bool squared = false;
  tensor_spec input;
  tensor_spec output;
};

/// Throws parameter_error.
[[nodiscard]] inline magnitude_settings parse_magnitude(const parameters& settings, const tensor_spec& input) {
  require_element_type("magnitude", input, {element_type::cf32});
  magnitude_settings parsed{.squared = settings.flag("squared", false), .input = input, .output = input};
  parsed.output.type = element_type::f32;
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_magnitude_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_magnitude_cuda(const operation_request& request);

}  // namespace penstock
