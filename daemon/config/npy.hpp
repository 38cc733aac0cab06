#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/npy.hpp"
#include "kernels/number_file.hpp"
#include "kernels/parameters.hpp"

namespace penstock {

/// Whether a parameter of an operator is an array of numbers and `text` stands for a .npy file that holds them. Of any
/// other parameter such a text is just a string.
[[nodiscard]] bool names_npy_file(std::string_view op, std::string_view key, std::string_view text);

/// Whether a parameter of an operator is a .npy file that stays a file: `weights` and `bias`. `text` is its name.
[[nodiscard]] bool keeps_npy_file(std::string_view op, std::string_view key, std::string_view text);
/// Opens the file and reads its header. Its numbers, of float16, float32 or float64, are read when an operator is made;
/// they are no more than fill the file. `name` is how messages call it. Throws npy_error and file_unreadable.
[[nodiscard]] std::shared_ptr<const number_file> open_npy_file(const std::string& name,
                                                               const std::filesystem::path& file);

/// Reads the file and sets the parameter to its numbers; those of a complex file become KEY and KEY_imag. One dimension
/// is taken, of `sections` also two, a section a row, and of `template`, whose rows `templates` then counts; of `by`
/// any number, as `by_shape` says. Throws npy_error; so does a complex file where the operator has no KEY_imag.
void set_from_npy_file(std::string_view op, const std::string& key, const std::filesystem::path& file,
                       parameters& into);

}  // namespace penstock
