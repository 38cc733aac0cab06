#include "client/cli/npy_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/npy.hpp"

namespace penstock::cli {
namespace {

struct npy_type {
  std::string_view dtype;
  std::size_t bytes;
  std::size_t number_bytes;  ///< of a number to turn around: a complex one has two
  std::string_view nothing;  ///< of a floating-point number: the bytes of NaN
};

using namespace std::string_view_literals;

constexpr std::array<npy_type, 12> types{{{"u8", 1, 1, ""},
                                          {"i8", 1, 1, ""},
                                          {"i16", 2, 2, ""},
                                          {"i32", 4, 4, ""},
                                          {"f32", 4, 4, "\x00\x00\xc0\x7f"sv},
                                          {"c64", 8, 4, "\x00\x00\xc0\x7f"sv},
                                          {"u16", 2, 2, ""},
                                          {"i64", 8, 8, ""},
                                          {"f16", 2, 2, "\x00\x7e"sv},
                                          {"bf16", 2, 2, "\xc0\x7f"sv},
                                          {"f64", 8, 8, "\x00\x00\x00\x00\x00\x00\xf8\x7f"sv},
                                          {"bool", 1, 1, ""}}};

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

std::string header_of(std::string_view dtype, std::uint64_t frames, std::span<const std::int64_t> frame_shape) {
  return print_npy_header(npy_descriptor_of(dtype), frames, frame_shape);
}

// Numbers of all extents: a product beyond any file's size is of a damaged header.
void check_size(std::span<const std::int64_t> shape) {
  std::uint64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(product, std::max<std::int64_t>(extent, 1), &product) || product > std::uint64_t{1}
                                                                                                      << 56U) {
      throw npy_error("its shape is too large");
    }
  }
}

}  // namespace

npy_file::npy_file(std::filesystem::path path, existing_file existing, std::string_view dtype,
                   std::span<const std::int64_t> frame_shape)
    : dtype_(dtype),
      frame_shape_(frame_shape.begin(), frame_shape.end()),
      frame_bytes_(bytes_of_frame(dtype, frame_shape)),
      out_(std::move(path), existing) {
  out_.append(header_of(dtype_, 0, frame_shape_));
}

void npy_file::append(std::span<const std::byte> frames) {
  if (frame_bytes_ == 0 || frames.size() % frame_bytes_ != 0) {
    throw std::runtime_error(path().string() + " takes whole frames of " + std::to_string(frame_bytes_) + " bytes");
  }
  if (!frames.empty()) {
    out_.append(frames);
    frames_ += frames.size() / frame_bytes_;
    out_.replace_beginning(header_of(dtype_, frames_, frame_shape_));
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
  const std::string_view nothing = type_of(dtype).nothing;
  for (std::size_t at = 0; !nothing.empty() && at < frame.size(); ++at) {
    frame[at] = static_cast<std::byte>(nothing[at % nothing.size()]);
  }
  return frame;
}

std::size_t item_bytes(std::string_view dtype) {
  return type_of(dtype).bytes;
}

std::size_t npy_format::item_bytes() const {
  return type_of(dtype).bytes;
}

std::size_t npy_format::number_bytes() const {
  return type_of(dtype).number_bytes;
}

std::string npy_format::text() const {
  std::string list;
  for (const std::int64_t extent : shape) {
    list += (list.empty() ? "" : ", ") + std::to_string(extent);
  }
  return dtype + "[" + list + "]";
}

npy_format read_npy_format(input_stream& file) {
  npy_header header;
  try {
    header = read_npy_header([&file](std::span<std::byte> room) { return file.read_all(room); });
    check_size(header.shape);
  } catch (const npy_error& error) {
    throw input_error(std::string("the .npy file is damaged: ") + error.what());
  }
  std::string little = header.descriptor;
  if (little.starts_with('>') || little.starts_with('=') || little == "|V2") {
    little.front() = '<';
  }
  const auto* const found = std::find_if(types.begin(), types.end(), [&](const npy_type& each) {
    const std::string_view descriptor = npy_descriptor_of(each.dtype);
    return descriptor == little || (each.bytes == 1 && little.size() == 3 && little.ends_with(descriptor.substr(1)));
  });
  if (found == types.end()) {
    throw input_error("the .npy file holds " + (little.empty() ? "no plain numbers" : header.descriptor) +
                      "; a pipeline takes u8, u16, i8, i16, i32, i64, f16, bf16, f32, f64, c64 or bool: save it with "
                      "astype, such as array.astype(\"float32\")");
  }
  return {.dtype = std::string(found->dtype),
          .big_endian = header.descriptor.starts_with('>') && found->bytes > 1,
          .fortran_order = header.fortran_order,
          .shape = std::move(header.shape)};
}

}  // namespace penstock::cli
