#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/code/compiler.hpp"
#include "kernels/parameters.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// What the parameters of a `kernel` stage ask to be compiled. Throws parameter_error.
[[nodiscard]] user_code code_of(const parameters& settings);

/// What a stage with these parameters has to be compiled for an architecture; nothing if that is found wrong later.
[[nodiscard]] std::optional<compile_request> request_of(const parameters& settings, const std::string& architecture);

/// Stands for all that the results of a stage with users' code depend on: its code, parameters, shapes and
/// architecture.
[[nodiscard]] std::string code_key(std::string_view op, const parameters& settings, std::span<const tensor_spec> inputs,
                                   std::int64_t max_frames, std::string_view architecture);

/// What the compiler made of a stage's kernel, for people: "kernel agc for sm_90: 10 registers, …", and its warnings.
/// `settings` come from with_machine_code.
[[nodiscard]] std::string code_text(const parameters& settings, std::string_view architecture);

/// The parameters, with the machine code of the stage's kernel as `code` and `symbol`. Throws as compile does, and
/// parameter_error.
[[nodiscard]] parameters with_machine_code(const parameters& settings, std::span<const tensor_spec> inputs,
                                           std::string_view architecture, const compiler_settings& compiler);

}  // namespace penstock
