#include "daemon/config/npy.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "base/guarded_file.hpp"
#include "base/printable.hpp"
#include "base/whole_file.hpp"
#include "kernels/operation.hpp"

namespace penstock {
namespace {

/// The parameters, of whatever operator, that are arrays of numbers.
constexpr std::array<std::string_view, 8> array_keys{"by",   "by_imag",   "range",    "sections",
                                                     "taps", "taps_imag", "template", "template_imag"};
constexpr std::string_view rows_key = "sections";
constexpr std::int64_t numbers_in_row = 6;
constexpr std::string_view bank_key = "template";
constexpr std::string_view shaped_key = "by";
/// Of the arrays that stay files.
constexpr std::array<std::pair<std::string_view, element_type>, 3> kept_types{
    {{"<f2", element_type::f16}, {"<f4", element_type::f32}, {"<f8", element_type::f64}}};

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

bool keeps_npy_file(std::string_view op, std::string_view key, std::string_view text) {
  return text.ends_with(".npy") && (key == "weights" || key == "bias") && has_key(op, key);
}

std::shared_ptr<const number_file> open_npy_file(const std::string& name, const std::filesystem::path& file) {
  std::optional<whole_file> opened;
  try {
    opened.emplace(file);
  } catch (const file_refused& error) {
    throw npy_error(std::string("it ") + error.what());
  }
  const struct stat facts = opened->facts();
  file_descriptor descriptor = opened->take();
  std::uint64_t offset = 0;
  const npy_header header = read_npy_header([&](std::span<std::byte> room) {
    std::size_t filled = 0;
    while (filled < room.size()) {
      const ssize_t got =
          ::pread(descriptor.number(), room.data() + filled, room.size() - filled, static_cast<off_t>(offset + filled));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        throw file_unreadable(file.string() + ": can't be read: " + std::generic_category().message(errno));
      }
      if (got == 0) {
        break;
      }
      filled += static_cast<std::size_t>(got);
    }
    offset += filled;
    return filled;
  });
  const auto* const type = std::find_if(kept_types.begin(), kept_types.end(),
                                        [&](const auto& known) { return known.first == header.descriptor; });
  if (type == kept_types.end()) {
    throw npy_error("its elements are " +
                    (header.descriptor.empty() ? "not plain numbers" : printable(header.descriptor)) +
                    "; numpy.float16, float32 and float64 can be read (<f2, <f4, <f8)");
  }
  if (header.fortran_order) {
    throw npy_error("its rows lie column by column; write it with numpy.ascontiguousarray");
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(facts.st_size) - offset;
  std::uint64_t left = bytes / size_of(type->second);
  for (const std::int64_t extent : header.shape) {
    if (extent == 0) {
      throw npy_error("it holds no numbers");
    }
    left /= static_cast<std::uint64_t>(extent);
  }
  const auto made = std::make_shared<const number_file>(name, std::move(descriptor), offset, type->second, header.shape,
                                                        file_state(file, facts));
  // Compared once none is beyond the file: the product of the extents does not overflow.
  if (header.shape.empty() || left == 0 || static_cast<std::uint64_t>(made->count()) * size_of(type->second) != bytes) {
    throw npy_error("its header says " + made->text() + ", but it holds " + std::to_string(bytes) +
                    " bytes of numbers");
  }
  return made;
}

void set_from_npy_file(std::string_view op, const std::string& key, const std::filesystem::path& file,
                       parameters& into) {
  npy_array array = read_npy(file);
  const std::size_t most = key == rows_key || key == bank_key ? 2 : 1;
  if (key == shaped_key && !array.shape.empty()) {
    into.set("by_shape", std::vector<double>(array.shape.begin(), array.shape.end()));
  } else if (array.shape.empty() || array.shape.size() > most) {
    throw npy_error("its array has " + std::to_string(array.shape.size()) + " dimensions; allowed " +
                    (most == 1 ? "is 1" : "are 1 and 2"));
  }
  if (key == bank_key && array.shape.size() == 2) {
    into.set("templates", array.shape[0]);
  } else if (key == rows_key && array.shape.size() == 2 && array.shape[1] != numbers_in_row) {
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
