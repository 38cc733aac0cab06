#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/operation.hpp"

/// Checks of inputs and parameters that several operators share. Each throws parameter_error, with a text for the user:
/// checks of inputs on the field `from`, checks of a parameter on its key.
namespace penstock {

/// The input of an operator that takes exactly one.
[[nodiscard]] const tensor_spec& sole_input(std::string_view operator_name, std::span<const tensor_spec> inputs);
/// There are 2 to `most` inputs.
void require_several_inputs(std::string_view operator_name, std::span<const tensor_spec> inputs, std::size_t most);
/// All inputs have one spec.
void require_equal_inputs(std::string_view operator_name, std::span<const tensor_spec> inputs);
/// The input's element type is one of `allowed`.
void require_element_type(std::string_view operator_name, const tensor_spec& input,
                          std::initializer_list<element_type> allowed);
/// The input's last extent is not "max N".
void require_fixed_last_axis(std::string_view operator_name, const tensor_spec& input);

/// The index of the chosen word; absent means the first.
[[nodiscard]] std::size_t parse_choice(const parameters& settings, std::string_view key,
                                       std::initializer_list<std::string_view> words);
/// An integer from `least` to `most`; `absent` where the key is missing, without which it is required.
[[nodiscard]] std::int64_t parse_integer(const parameters& settings, std::string_view key, std::int64_t least,
                                         std::int64_t most, std::optional<std::int64_t> absent = std::nullopt);
/// The parameter `axis`, an axis of the input; negative ones count from the last, −1.
[[nodiscard]] std::size_t parse_axis(const parameters& settings, const tensor_spec& input, std::int64_t absent);
/// Whether a number is finite in f32.
[[nodiscard]] bool is_finite_f32(double number) noexcept;
/// The number of parameter `key` as f32, in which it is finite.
[[nodiscard]] float parse_f32(std::string_view key, double number);

}  // namespace penstock
