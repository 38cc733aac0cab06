#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "kernels/operation.hpp"

namespace penstock {

/// How sums of products along a row are taken: by themselves, or by the discrete Fourier transform.
enum class sum_method { automatic, direct, fft };

/// The parameter `method`: "auto" (default), "direct" or "fft". Throws parameter_error.
[[nodiscard]] sum_method parse_sum_method(const parameters& settings);

/// The input of an operator that takes exactly one. Throws parameter_error on the field `from` otherwise.
[[nodiscard]] const tensor_spec& sole_input(std::string_view operator_name, std::span<const tensor_spec> inputs);

/// Throws parameter_error on the field `from` unless the input's element type is among those `allowed`.
void require_element_type(std::string_view operator_name, const tensor_spec& input,
                          std::initializer_list<element_type> allowed);

/// Throws parameter_error on the field `from` when the input's last extent is "max N".
void require_fixed_last_axis(std::string_view operator_name, const tensor_spec& input);

}  // namespace penstock
