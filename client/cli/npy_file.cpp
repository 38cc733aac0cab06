#include "client/cli/npy_file.hpp"

#include <algorithm>
#include <array>
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

npy_file::npy_file(std::filesystem::path path, std::string_view dtype, std::span<const std::int64_t> frame_shape)
    : path_(std::move(path)),
      dtype_(dtype),
      frame_shape_(frame_shape.begin(), frame_shape.end()),
      frame_bytes_(bytes_of_frame(dtype, frame_shape)),
      out_(path_, std::ios::binary | std::ios::trunc) {
  out_ << npy_header(dtype_, 0, frame_shape_);
  check();
}

void npy_file::check() const {
  if (!out_) {
    throw std::runtime_error("can't write " + path_.string() + ": " + std::strerror(errno));
  }
}

void npy_file::append(std::span<const std::byte> frames) {
  if (frame_bytes_ == 0 || frames.size() % frame_bytes_ != 0) {
    throw std::runtime_error(path_.string() + " takes whole frames of " + std::to_string(frame_bytes_) + " bytes");
  }
  out_.write(reinterpret_cast<const char*>(frames.data()), static_cast<std::streamsize>(frames.size()));
  frames_ += frames.size() / frame_bytes_;
  check();
}

void npy_file::append_missing(std::uint64_t frames) {
  std::vector<std::byte> frame(frame_bytes_);
  if (type_of(dtype_).floating) {
    constexpr float nothing = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t at = 0; at + sizeof nothing <= frame.size(); at += sizeof nothing) {
      std::memcpy(frame.data() + at, &nothing, sizeof nothing);
    }
  }
  for (std::uint64_t each = 0; each < frames; ++each) {
    append(frame);
  }
}

void npy_file::finish() {
  out_.seekp(0);
  out_ << npy_header(dtype_, frames_, frame_shape_);
  out_.flush();
  check();
}

}  // namespace penstock::cli
