#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/descriptors.hpp"

namespace penstock::cli {

/// What to do with an existing file.
enum class existing_file : std::uint8_t { keep, replace };

/// A file or the standard output, written in whole pieces without buffering. All functions throw std::runtime_error
/// with name and reason.
class output_file {
 public:
  /// The standard output.
  output_file();
  output_file(std::filesystem::path path, existing_file existing);

  /// Appends a piece. After a failure a file ends with the previous piece.
  void append(std::span<const std::byte> piece);
  void append(std::string_view piece) { append(std::as_bytes(std::span{piece})); }
  /// Overwrites the beginning of a file.
  void replace_beginning(std::string_view beginning);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  file_descriptor file_;  ///< none: the standard output
  int descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace penstock::cli
