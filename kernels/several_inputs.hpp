#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "kernels/operation.hpp"

namespace penstock {

/// Throws parameter_error on the field `from` unless there are two inputs or more, and at most `most`.
void require_several_inputs(std::string_view operator_name, std::span<const tensor_spec> inputs, std::size_t most);

/// Throws parameter_error on the field `from` unless all inputs have the spec of the first.
void require_equal_inputs(std::string_view operator_name, std::span<const tensor_spec> inputs);

}  // namespace penstock
