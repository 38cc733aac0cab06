#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "kernels/operation.hpp"

namespace penstock {

/// The input of an operator that takes exactly one. Throws parameter_error on the field `from` otherwise.
[[nodiscard]] const tensor_spec& sole_input(std::string_view operator_name, std::span<const tensor_spec> inputs);

/// Throws parameter_error on the field `from` unless the input's element type is among those `allowed`.
void require_element_type(std::string_view operator_name, const tensor_spec& input,
                          std::initializer_list<element_type> allowed);

/// Throws parameter_error on the field `from` when the input's last extent is "max N".
void require_fixed_last_axis(std::string_view operator_name, const tensor_spec& input);

}  // namespace penstock
