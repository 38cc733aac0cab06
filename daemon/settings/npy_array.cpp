#include "daemon/settings/npy_array.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/files/whole_file.hpp"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t max_numbers = std::int64_t{1} << 22U;
constexpr std::size_t max_header = std::size_t{1} << 16U;

struct number_type {
  std::string_view descriptor;
  std::size_t bytes;  ///< of one part
  std::size_t parts;
};
constexpr std::array<number_type, 4> number_types{{{"<f4", 4, 1}, {"<f8", 8, 1}, {"<c8", 4, 2}, {"<c16", 8, 2}}};

constexpr std::size_t max_file = (std::size_t{1} << 20U) + static_cast<std::size_t>(max_numbers) * 2 * sizeof(double);

/// The first bytes of what is left, as many as there are.
std::string_view take(std::string_view& left, std::size_t count) noexcept {
  const std::string_view taken = left.substr(0, count);
  left.remove_prefix(taken.size());
  return taken;
}

/// The dictionary that the header holds.
std::string_view take_dictionary(std::string_view& left) {
  constexpr std::string_view magic = "\x93NUMPY";
  const std::string_view start = take(left, magic.size() + 2);
  if (!start.starts_with(magic) || start.size() != magic.size() + 2) {
    throw npy_error("it is not a .npy file");
  }
  const int version = start[magic.size()];
  if (version < 1 || version > 3) {
    throw npy_error("its format is version " + std::to_string(version) + "; versions 1 to 3 can be read");
  }
  std::size_t length = 0;
  const std::string_view counted = take(left, version == 1 ? 2 : 4);
  for (std::size_t at = 0; at < counted.size(); ++at) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(counted[at])) << (8 * at);
  }
  if (length > max_header) {
    throw npy_error("its header of " + std::to_string(length) + " bytes is too long");
  }
  const std::string_view dictionary = take(left, length);
  if (dictionary.size() != length || dictionary.empty()) {
    throw npy_error("it ends within its header");
  }
  return dictionary;
}

/// The text of a key's value, from its first letter to the dictionary's end.
std::string_view value_of(std::string_view dictionary, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "':";
  const std::size_t at = dictionary.find(quoted);
  if (at == std::string_view::npos) {
    throw npy_error("its header has no " + std::string(key));
  }
  dictionary.remove_prefix(at + quoted.size());
  dictionary.remove_prefix(std::min(dictionary.find_first_not_of(' '), dictionary.size()));
  return dictionary;
}

number_type type_in(std::string_view dictionary) {
  constexpr const char* allowed =
      "; numpy.float32, float64, complex64 and complex128 can be read (<f4, <f8, <c8, <c16)";
  const std::string_view value = value_of(dictionary, "descr");
  const std::size_t end = value.starts_with('\'') ? value.find('\'', 1) : std::string_view::npos;
  if (end == std::string_view::npos) {
    throw npy_error(std::string("its elements are not plain numbers") + allowed);
  }
  const std::string_view descriptor = value.substr(1, end - 1);
  const auto* const found = std::find_if(number_types.begin(), number_types.end(),
                                         [&](const number_type& each) { return each.descriptor == descriptor; });
  if (found == number_types.end()) {
    throw npy_error("its elements are " + std::string(descriptor) + allowed);
  }
  return *found;
}

/// "(3, 4)" → 3, 4.
std::optional<std::vector<std::int64_t>> parse_shape(std::string_view value) {
  const std::size_t end = value.find(')');
  if (!value.starts_with('(') || end == std::string_view::npos) {
    return std::nullopt;
  }
  value = value.substr(1, end - 1);
  std::vector<std::int64_t> shape;
  while (true) {
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    if (value.empty()) {
      return shape;
    }
    std::int64_t extent = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), extent);
    value.remove_prefix(static_cast<std::size_t>(rest - value.data()));
    if (error != std::errc{} || extent < 0 || (!value.empty() && value.front() != ',')) {
      return std::nullopt;
    }
    shape.push_back(extent);
    value.remove_prefix(std::min<std::size_t>(1, value.size()));
  }
}

std::vector<std::int64_t> shape_in(std::string_view dictionary) {
  std::optional<std::vector<std::int64_t>> shape = parse_shape(value_of(dictionary, "shape"));
  if (!shape) {
    throw npy_error("its header's shape can't be understood");
  }
  if (value_of(dictionary, "fortran_order").starts_with("True") && shape->size() > 1) {
    throw npy_error("its rows lie column by column; write it with numpy.ascontiguousarray");
  }
  return std::move(*shape);
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent == 0) {
      throw npy_error("it holds no numbers");
    }
    if (extent > max_numbers / count) {
      throw npy_error("it holds more than " + std::to_string(max_numbers) + " numbers");
    }
    count *= extent;
  }
  return count;
}

std::string content_of(const std::filesystem::path& file) {
  try {
    return read_whole_file(file, max_file);
  } catch (const file_refused& error) {
    throw npy_error(std::string("it ") + error.what());
  }
}

double number_at(std::string_view bytes, const number_type& type, std::size_t index) {
  const auto load = [&](auto value) {
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return static_cast<double>(value);
  };
  const double value = type.bytes == sizeof(float) ? load(float{}) : load(double{});
  if (!std::isfinite(value)) {
    throw npy_error("number " + std::to_string(index / type.parts) + " (counted from 0) is not finite");
  }
  return value;
}

}  // namespace

npy_array read_npy(const std::filesystem::path& file) {
  const std::string content = content_of(file);
  std::string_view bytes = content;
  const std::string_view dictionary = take_dictionary(bytes);
  const number_type type = type_in(dictionary);
  npy_array array;
  array.shape = shape_in(dictionary);
  array.is_complex = type.parts == 2;
  const auto count = static_cast<std::size_t>(count_of(array.shape));
  if (bytes.size() != count * type.parts * type.bytes) {
    throw npy_error("its header says " + std::to_string(count) + " numbers of " +
                    std::to_string(type.parts * type.bytes) + " bytes, but it holds " +
                    (bytes.size() < count * type.parts * type.bytes ? "fewer" : "more"));
  }
  for (std::size_t index = 0; index < count; ++index) {
    array.real.push_back(number_at(bytes, type, index * type.parts));
    if (array.is_complex) {
      array.imaginary.push_back(number_at(bytes, type, index * type.parts + 1));
    }
  }
  return array;
}

}  // namespace penstock
