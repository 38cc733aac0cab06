#include "daemon/config/npy.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/operation.hpp"

namespace penstock {
namespace {

/// The parameters, of whatever operator, that are arrays of numbers.
constexpr std::array<std::string_view, 6> array_keys{"range",     "sections", "taps",
                                                     "taps_imag", "template", "template_imag"};
constexpr std::string_view rows_key = "sections";
constexpr std::int64_t numbers_in_row = 6;

bool has_key(std::string_view op, std::string_view key) {
  const operator_definition* definition = find_operator(op);
  return definition != nullptr &&
         std::find(definition->keys.begin(), definition->keys.end(), key) != definition->keys.end();
}

}  // namespace

bool names_npy_file(std::string_view op, std::string_view key, std::string_view text) {
  return text.ends_with(".npy") && std::find(array_keys.begin(), array_keys.end(), key) != array_keys.end() &&
         has_key(op, key);
}

void set_from_npy_file(std::string_view op, const std::string& key, const std::filesystem::path& file,
                       parameters& into) {
  npy_array array = read_npy(file);
  const std::size_t most = key == rows_key ? 2 : 1;
  if (array.shape.empty() || array.shape.size() > most) {
    throw npy_error("its array has " + std::to_string(array.shape.size()) + " dimensions; allowed " +
                    (most == 1 ? "is 1" : "are 1 and 2"));
  }
  if (array.shape.size() == 2 && array.shape[1] != numbers_in_row) {
    throw npy_error("its rows have " + std::to_string(array.shape[1]) + " numbers; a section has " +
                    std::to_string(numbers_in_row));
  }
  if (array.is_complex) {
    const std::string imaginary = key + "_imag";
    if (!has_key(op, imaginary)) {
      throw npy_error("its numbers are complex, but operator '" + std::string(op) + "' takes real ones alone");
    }
    into.set(imaginary, std::move(array.imaginary));
  }
  into.set(key, std::move(array.real));
}

}  // namespace penstock
