#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

/// A .npy file (format 1.0, little-endian, C order) of shape [frames, ...] that grows by frames; how many there are is
/// written into its header by `finish`.
class npy_file {
 public:
  /// `dtype` is the wire's name, `frame_shape` the shape of one frame. Replaces a file of that name.
  /// Throws std::runtime_error, which names the file, when it can't be written; so do the others.
  npy_file(std::filesystem::path path, std::string_view dtype, std::span<const std::int64_t> frame_shape);
  npy_file(const npy_file&) = delete;
  npy_file& operator=(const npy_file&) = delete;

  /// Adds whole frames.
  void append(std::span<const std::byte> frames);
  /// Adds frames for which there is nothing: NaN, or 0 in integers.
  void append_missing(std::uint64_t frames);
  /// Writes the header with the number of frames.
  void finish();

  [[nodiscard]] std::uint64_t frames() const noexcept { return frames_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::span<const std::int64_t> frame_shape() const noexcept { return frame_shape_; }

 private:
  void check() const;

  std::filesystem::path path_;
  std::string dtype_;
  std::vector<std::int64_t> frame_shape_;
  std::size_t frame_bytes_;
  std::uint64_t frames_ = 0;
  std::ofstream out_;
};

/// The header of a .npy file: magic, version, length and dictionary, padded to `size` bytes, which is 128 or more and
/// a multiple of 64. `dtype` is the wire's name.
[[nodiscard]] std::string npy_header(std::string_view dtype, std::uint64_t frames,
                                     std::span<const std::int64_t> frame_shape);

}  // namespace penstock::cli
