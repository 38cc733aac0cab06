#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/npy.hpp"
#include "kernels/parameters.hpp"

namespace penstock {

/// Whether a parameter of an operator is an array of numbers and `text` stands for a .npy file that holds them. Of any
/// other parameter such a text is just a string.
[[nodiscard]] bool names_npy_file(std::string_view op, std::string_view key, std::string_view text);

/// Reads the file and sets the parameter to its numbers; those of a complex file become KEY and KEY_imag. One dimension
/// is taken, of `sections` also two, a section a row. Throws npy_error; so does a complex file where the operator has
/// no KEY_imag.
void set_from_npy_file(std::string_view op, const std::string& key, const std::filesystem::path& file,
                       parameters& into);

}  // namespace penstock
