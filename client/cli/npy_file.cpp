#include "client/cli/npy_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace penstock::cli {
namespace {

struct npy_type {
  std::string_view dtype;
  std::string_view descriptor;
  std::size_t bytes;
  bool floating;
};

constexpr std::array<npy_type, 6> types{{{"u8", "|u1", 1, false},
                                         {"i8", "|i1", 1, false},
                                         {"i16", "<i2", 2, false},
                                         {"i32", "<i4", 4, false},
                                         {"f32", "<f4", 4, true},
                                         {"c64", "<c8", 8, true}}};

const npy_type& type_of(std::string_view dtype) {
  const auto* const found =
      std::find_if(types.begin(), types.end(), [dtype](const npy_type& each) { return each.dtype == dtype; });
  if (found == types.end()) {
    throw std::runtime_error("a .npy file can't hold \"" + std::string(dtype) + "\"");
  }
  return *found;
}

std::size_t bytes_of_frame(std::string_view dtype, std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), type_of(dtype).bytes, [](std::size_t bytes, std::int64_t extent) {
    return bytes * static_cast<std::size_t>(extent);
  });
}

/// The value at the beginning of a text, up to where one of its kind ends; "" when it is none of them.
std::string_view plain_value(std::string_view text) {
  if (text.starts_with('\'') || text.starts_with('"')) {
    const std::size_t end = text.find(text.front(), 1);
    return end == text.npos ? "" : text.substr(0, end + 1);
  }
  for (const std::string_view flag : {"True", "False"}) {
    if (text.starts_with(flag)) {
      return flag;
    }
  }
  const std::size_t end = text.starts_with('(') ? text.find_first_of("()", 1) : text.npos;
  return end == text.npos || text[end] == '(' ? "" : text.substr(0, end + 1);
}

std::string_view without_spaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

/// What follows 'key': in the dictionary. Not by std::regex: it takes stack for every letter of a header that may have
/// any length.
std::string value_of(const std::string& header, const std::string& key) {
  for (std::size_t at = header.find(key); at != header.npos; at = header.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    const char quote = at == 0 ? '\0' : header[at - 1];
    if ((quote != '\'' && quote != '"') || end == header.size() || header[end] != quote) {
      continue;
    }
    const std::string_view rest = without_spaces(std::string_view(header).substr(end + 1));
    const std::string_view value = rest.starts_with(':') ? plain_value(without_spaces(rest.substr(1))) : "";
    if (!value.empty()) {
      return std::string(value);
    }
  }
  throw input_error("the header of the .npy file has no plain '" + key +
                    "'; arrays of one of the wire's dtypes are taken: u8, i8, i16, i32, f32, c64");
}

std::vector<std::int64_t> shape_of(const std::string& tuple) {
  constexpr std::string_view digits = "0123456789";
  constexpr std::size_t most_dimensions = 64;  // more than any array has
  std::vector<std::int64_t> shape;
  std::uint64_t product = 1;
  for (std::size_t at = tuple.find_first_of(digits); at != tuple.npos;) {
    const std::size_t end = std::min(tuple.find_first_not_of(digits, at), tuple.size());
    std::int64_t extent = 0;
    const auto read = std::from_chars(tuple.data() + at, tuple.data() + end, extent);
    const bool fits =
        read.ec == std::errc{} && !__builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product);
    if (!fits || product > std::uint64_t{1} << 56U) {
      throw input_error("the shape " + tuple.substr(0, 100) + " of the .npy file is too large: the file is damaged");
    }
    shape.push_back(extent);
    if (shape.size() > most_dimensions) {
      throw input_error("the .npy file has more than " + std::to_string(most_dimensions) +
                        " dimensions: the file is damaged");
    }
    at = tuple.find_first_of(digits, end);
  }
  return shape;
}

npy_format npy_dictionary(const std::string& header) {
  npy_format format;
  const std::string quoted = value_of(header, "descr");
  const std::string descriptor = quoted.substr(1, quoted.size() - 2);
  if (descriptor.size() < 2) {
    throw input_error("the .npy file's 'descr' is damaged");
  }
  const std::string little =
      descriptor.substr(0, 1) == ">" || descriptor.substr(0, 1) == "=" ? "<" + descriptor.substr(1) : descriptor;
  const auto* const found = std::find_if(types.begin(), types.end(), [&](const npy_type& each) {
    return each.descriptor == little || (each.bytes == 1 && each.descriptor.substr(1) == little.substr(1));
  });
  if (found == types.end()) {
    throw input_error("the .npy file holds " + descriptor +
                      "; a pipeline takes u8, i8, i16, i32, f32 or c64: save it with astype, such as "
                      "array.astype(\"float32\")");
  }
  format.dtype = found->dtype;
  format.big_endian = descriptor.starts_with('>') && found->bytes > 1;
  format.shape = shape_of(value_of(header, "shape"));
  format.fortran_order = value_of(header, "fortran_order") == "True" && format.shape.size() > 1;
  return format;
}

}  // namespace

std::string npy_header(std::string_view dtype, std::uint64_t frames, std::span<const std::int64_t> frame_shape) {
  std::string dictionary = "{'descr': '" + std::string(type_of(dtype).descriptor) +
                           "', 'fortran_order': False, 'shape': (" + std::to_string(frames) + ",";
  for (const std::int64_t extent : frame_shape) {
    dictionary += " " + std::to_string(extent) + ",";
  }
  if (!frame_shape.empty()) {
    dictionary.pop_back();  // only a tuple of one ends with a comma
  }
  dictionary += "), }";
  // The most digits that `frames` can have decide the size, so that it stays the same when the frames are known.
  constexpr std::size_t preamble = 10;
  const std::size_t digits = std::to_string(frames).size();
  const std::size_t longest = preamble + dictionary.size() + (20 - digits) + 1;
  const std::size_t size = std::max<std::size_t>((longest + 63) / 64 * 64, 128);
  const std::size_t length = size - preamble;
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\0';
  header += static_cast<char>(length & 0xFFU);
  header += static_cast<char>(length >> 8U);
  header += dictionary;
  header.resize(size - 1, ' ');
  return header + '\n';
}

npy_file::npy_file(std::filesystem::path path, existing_file existing, std::string_view dtype,
                   std::span<const std::int64_t> frame_shape)
    : dtype_(dtype),
      frame_shape_(frame_shape.begin(), frame_shape.end()),
      frame_bytes_(bytes_of_frame(dtype, frame_shape)),
      out_(std::move(path), existing) {
  out_.append(npy_header(dtype_, 0, frame_shape_));
}

void npy_file::append(std::span<const std::byte> frames) {
  if (frame_bytes_ == 0 || frames.size() % frame_bytes_ != 0) {
    throw std::runtime_error(path().string() + " takes whole frames of " + std::to_string(frame_bytes_) + " bytes");
  }
  if (!frames.empty()) {
    out_.append(frames);
    frames_ += frames.size() / frame_bytes_;
    out_.replace_beginning(npy_header(dtype_, frames_, frame_shape_));
  }
}

void npy_file::append_missing(std::uint64_t frames) {
  const std::vector<std::byte> frame = missing_frame(dtype_, frame_shape_);
  for (std::uint64_t each = 0; each < frames; ++each) {
    append(frame);
  }
}

std::vector<std::byte> missing_frame(std::string_view dtype, std::span<const std::int64_t> frame_shape) {
  std::vector<std::byte> frame(bytes_of_frame(dtype, frame_shape));
  if (type_of(dtype).floating) {
    constexpr float nothing = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t at = 0; at + sizeof nothing <= frame.size(); at += sizeof nothing) {
      std::memcpy(frame.data() + at, &nothing, sizeof nothing);
    }
  }
  return frame;
}

std::size_t npy_format::item_bytes() const noexcept {
  return dtype == "c64" ? 8 : dtype == "i32" || dtype == "f32" ? 4 : dtype == "i16" ? 2 : 1;
}

std::string npy_format::text() const {
  std::string list;
  for (const std::int64_t extent : shape) {
    list += (list.empty() ? "" : ", ") + std::to_string(extent);
  }
  return dtype + "[" + list + "]";
}

npy_format read_npy_header(input_stream& from) {
  std::array<std::byte, 8> start{};
  std::array<unsigned char, 4> length_bytes{};
  if (from.read_all(start) != start.size()) {
    throw input_error("the .npy file ends inside its header");
  }
  const auto version = std::to_integer<int>(start[6]);
  const std::size_t length_size = version == 1 ? 2 : 4;
  if (version < 1 || version > 3) {
    throw input_error("the .npy file has format version " + std::to_string(version) + "; known are 1 to 3");
  }
  const auto length_span = std::as_writable_bytes(std::span{length_bytes}).first(length_size);
  const bool has_length = from.read_all(length_span) == length_size;
  std::size_t length = 0;
  for (std::size_t at = length_size; at-- > 0;) {
    length = length << 8U | length_bytes.at(at);
  }
  constexpr std::size_t longest = std::size_t{1} << 20U;
  std::string header(std::min(length, longest), '\0');
  if (!has_length || length > longest || from.read_all(std::as_writable_bytes(std::span{header})) != header.size()) {
    throw input_error("the .npy file ends inside its header, or the header is damaged");
  }
  return npy_dictionary(header);
}

}  // namespace penstock::cli
