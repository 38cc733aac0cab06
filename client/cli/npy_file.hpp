#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/input_stream.hpp"
#include "client/cli/output_file.hpp"

namespace penstock::cli {

/// A .npy file (format 1.0, little-endian, C order) of shape [frames, ...] that grows by frames. It is whole after each
/// append: the frames are written first, then the header that counts them.
class npy_file {
 public:
  /// `dtype` is the wire's name, `frame_shape` the shape of one frame.
  /// Throws std::runtime_error, which names the file, when it can't be written; so do the others.
  npy_file(std::filesystem::path path, existing_file existing, std::string_view dtype,
           std::span<const std::int64_t> frame_shape);

  /// Adds whole frames.
  void append(std::span<const std::byte> frames);
  /// Adds frames for which there is nothing: NaN, or 0 in integers.
  void append_missing(std::uint64_t frames);

  [[nodiscard]] std::uint64_t frames() const noexcept { return frames_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return out_.path(); }
  [[nodiscard]] std::span<const std::int64_t> frame_shape() const noexcept { return frame_shape_; }

 private:
  std::string dtype_;
  std::vector<std::int64_t> frame_shape_;
  std::size_t frame_bytes_;
  std::uint64_t frames_ = 0;
  output_file out_;
};

/// One frame for which there is nothing: NaN, or 0 in integers.
[[nodiscard]] std::vector<std::byte> missing_frame(std::string_view dtype, std::span<const std::int64_t> frame_shape);

/// Bytes of one element. Throws std::runtime_error for a dtype that the wire has not.
[[nodiscard]] std::size_t item_bytes(std::string_view dtype);

/// What the header of a .npy file says, in the words of the wire.
struct npy_format {
  std::string dtype;  ///< the wire's name
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::size_t item_bytes() const;
  /// Of a number to turn around: a complex has two.
  [[nodiscard]] std::size_t number_bytes() const;
  /// "i16[3000, 2]".
  [[nodiscard]] std::string text() const;
};

/// Reads the header of a .npy file of version 1, 2 or 3, from its first byte up to the first number. Throws input_error
/// for what is damaged and for a dtype that the wire has not.
[[nodiscard]] npy_format read_npy_format(input_stream& file);

}  // namespace penstock::cli
