#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace penstock::cli {

/// What happens to a file of the same name.
enum class existing_file : std::uint8_t { keep, replace };

/// A file, or the standard output, that grows by whole pieces and is complete after each. Nothing is buffered.
/// Every function throws std::runtime_error with the name and the reason.
class output_file {
 public:
  /// The standard output.
  output_file();
  output_file(std::filesystem::path path, existing_file existing);
  ~output_file();
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  /// Adds a piece. If it fails, a file ends with the piece before.
  void append(std::span<const std::byte> piece);
  void append(std::string_view piece) { append(std::as_bytes(std::span{piece})); }
  /// Writes over the beginning of a file.
  void replace_beginning(std::string_view beginning);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  int descriptor_;
  bool is_file_;
  std::uint64_t size_ = 0;
};

}  // namespace penstock::cli
