#include "base/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/printable.hpp"
#include "base/whole_file.hpp"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t max_header = std::size_t{1} << 20U;
constexpr std::size_t max_dimensions = 64;  // more than any array has
constexpr std::int64_t max_numbers = std::int64_t{1} << 22U;
constexpr std::size_t max_file = max_header + static_cast<std::size_t>(max_numbers) * 2 * sizeof(double);

std::string_view without_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

/// What follows 'key': up to the dictionary's end. Not by std::regex: it takes stack for every letter of a header that
/// may have any length.
std::string_view text_after(std::string_view dictionary, std::string_view key) {
  for (std::size_t at = dictionary.find(key, 1); at != dictionary.npos; at = dictionary.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    const char quote = dictionary[at - 1];
    if ((quote == '\'' || quote == '"') && end < dictionary.size() && dictionary[end] == quote) {
      const std::string_view rest = without_blanks(dictionary.substr(end + 1));
      if (rest.starts_with(':')) {
        return without_blanks(rest.substr(1));
      }
    }
  }
  throw npy_error("its header has no " + std::string(key));
}

std::string descriptor_in(std::string_view dictionary) {
  const std::string_view value = text_after(dictionary, "descr");
  if (!value.starts_with('\'') && !value.starts_with('"')) {
    return "";
  }
  const std::size_t end = value.find(value.front(), 1);
  if (end == value.npos || end < 3) {
    throw npy_error("its header's descr can't be understood");
  }
  return std::string(value.substr(1, end - 1));
}

/// "(3, 4)" → 3, 4.
std::optional<std::vector<std::int64_t>> parse_shape(std::string_view value) {
  const std::size_t end = value.find(')');
  if (!value.starts_with('(') || end == value.npos) {
    return std::nullopt;
  }
  value = value.substr(1, end - 1);
  std::vector<std::int64_t> shape;
  while (true) {
    value = without_blanks(value);
    if (value.empty()) {
      return shape;
    }
    if (shape.size() == max_dimensions) {
      throw npy_error("it has more than " + std::to_string(max_dimensions) + " dimensions");
    }
    std::int64_t extent = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), extent);
    value.remove_prefix(static_cast<std::size_t>(rest - value.data()));
    value.remove_prefix(value.starts_with('L') ? 1 : 0);  // of Python 2
    value = without_blanks(value);
    if (error != std::errc{} || extent < 0 || (!value.empty() && value.front() != ',')) {
      return std::nullopt;
    }
    shape.push_back(extent);
    value.remove_prefix(std::min<std::size_t>(1, value.size()));
  }
}

struct number_type {
  std::string_view descriptor;
  std::size_t bytes;  ///< of one part
  std::size_t parts;
};
constexpr std::array<number_type, 4> number_types{{{"<f4", 4, 1}, {"<f8", 8, 1}, {"<c8", 4, 2}, {"<c16", 8, 2}}};

number_type type_of(const std::string& descriptor) {
  const auto* const found = std::find_if(number_types.begin(), number_types.end(),
                                         [&](const number_type& each) { return each.descriptor == descriptor; });
  if (found == number_types.end()) {
    throw npy_error("its elements are " + (descriptor.empty() ? "not plain numbers" : printable(descriptor)) +
                    "; numpy.float32, float64, complex64 and complex128 can be read (<f4, <f8, <c8, <c16)");
  }
  return *found;
}

std::size_t count_of(const std::vector<std::int64_t>& shape) {
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
  return static_cast<std::size_t>(count);
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

std::string content_of(const std::filesystem::path& file) {
  try {
    return read_whole_file(file, max_file);
  } catch (const file_refused& error) {
    throw npy_error(std::string("it ") + error.what());
  }
}

}  // namespace

std::string_view npy_descriptor_of(std::string_view dtype) noexcept {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> descriptors{{{"u8", "|u1"},
                                                                                       {"i8", "|i1"},
                                                                                       {"u16", "<u2"},
                                                                                       {"i16", "<i2"},
                                                                                       {"i32", "<i4"},
                                                                                       {"i64", "<i8"},
                                                                                       {"f16", "<f2"},
                                                                                       {"bf16", "<V2"},
                                                                                       {"f32", "<f4"},
                                                                                       {"f64", "<f8"},
                                                                                       {"c64", "<c8"},
                                                                                       {"bool", "|b1"}}};
  const auto* const found =
      std::find_if(descriptors.begin(), descriptors.end(), [dtype](const auto& each) { return each.first == dtype; });
  return found == descriptors.end() ? "" : found->second;
}

npy_header read_npy_header(const std::function<std::size_t(std::span<std::byte>)>& read) {
  const auto take = [&read](std::size_t count) {
    std::string taken(count, '\0');
    taken.resize(read(std::as_writable_bytes(std::span{taken})));
    return taken;
  };
  const std::string start = take(magic.size() + 2);
  if (start.empty() || start.substr(0, magic.size()) != magic.substr(0, start.size())) {
    throw npy_error("it is not a .npy file");
  }
  if (start.size() != magic.size() + 2) {
    throw npy_error("it ends within its header");
  }
  const int version = start[magic.size()];
  if (version < 1 || version > 3) {
    throw npy_error("its format is version " + std::to_string(version) + "; versions 1 to 3 can be read");
  }
  std::size_t length = 0;
  const std::string counted = take(version == 1 ? 2 : 4);
  for (std::size_t at = 0; at < counted.size(); ++at) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(counted[at])) << (8 * at);
  }
  if (length > max_header) {
    throw npy_error("its header of " + std::to_string(length) + " bytes is too long");
  }
  const std::string dictionary = take(length);
  if (dictionary.size() != length || dictionary.empty()) {
    throw npy_error("it ends within its header");
  }
  npy_header header;
  header.descriptor = descriptor_in(dictionary);
  std::optional<std::vector<std::int64_t>> shape = parse_shape(text_after(dictionary, "shape"));
  if (!shape) {
    throw npy_error("its header's shape can't be understood");
  }
  header.fortran_order = text_after(dictionary, "fortran_order").starts_with("True") && shape->size() > 1;
  header.shape = std::move(*shape);
  return header;
}

std::string print_npy_header(std::string_view descriptor, std::uint64_t frames,
                             std::span<const std::int64_t> frame_shape) {
  const std::string count = std::to_string(frames);
  std::string dictionary =
      "{'descr': '" + std::string(descriptor) + "', 'fortran_order': False, 'shape': (" + count + ",";
  for (const std::int64_t extent : frame_shape) {
    dictionary += " " + std::to_string(extent) + ",";
  }
  if (!frame_shape.empty()) {
    dictionary.pop_back();  // only a tuple of one ends with a comma
  }
  dictionary += "), }";
  constexpr std::size_t preamble = 10;
  constexpr std::size_t most_digits = 20;
  const std::size_t longest = preamble + dictionary.size() + (most_digits - count.size()) + 1;
  const std::size_t size = std::max<std::size_t>((longest + 63) / 64 * 64, 128);
  const std::size_t length = size - preamble;
  std::string header(magic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(length & 0xFFU);
  header += static_cast<char>(length >> 8U);
  header += dictionary;
  header.resize(size - 1, ' ');
  return header + '\n';
}

npy_array read_npy(const std::filesystem::path& file) {
  const std::string content = content_of(file);
  std::string_view bytes = content;
  const npy_header header = read_npy_header([&bytes](std::span<std::byte> room) {
    const std::size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    bytes.remove_prefix(count);
    return count;
  });
  const number_type type = type_of(header.descriptor);
  if (header.fortran_order) {
    throw npy_error("its rows lie column by column; write it with numpy.ascontiguousarray");
  }
  npy_array array{.shape = header.shape, .is_complex = type.parts == 2, .real = {}, .imaginary = {}};
  const std::size_t count = count_of(array.shape);
  const std::size_t wanted = count * type.parts * type.bytes;
  if (bytes.size() != wanted) {
    throw npy_error("its header says " + std::to_string(count) + " numbers of " +
                    std::to_string(type.parts * type.bytes) + " bytes, but it holds " +
                    (bytes.size() < wanted ? "fewer" : "more"));
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
