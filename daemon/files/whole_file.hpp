#pragma once

#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <sys/stat.h>

namespace penstock {

/// The name can't be read as a file: it is missing, forbidden, no regular file, or too large. Only a change of the
/// name or of the file mends that. what() says why, without the name.
class file_refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The file could not be read this time: the disk, the machine's memory or descriptors, or somebody who wrote it
/// meanwhile. It says nothing about what is in the file. what() begins with the name.
class file_unreadable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file opened to be read whole: a regular one. What is no such file, a pipe or a terminal, is refused without
/// waiting for it. A file system that hangs still holds whoever reads.
class whole_file {
 public:
  /// Throws file_refused or file_unreadable.
  explicit whole_file(std::filesystem::path name);
  whole_file(const whole_file&) = delete;
  whole_file& operator=(const whole_file&) = delete;
  ~whole_file();

  /// Of the opened file itself.
  [[nodiscard]] const struct stat& facts() const noexcept { return facts_; }
  /// All of it, once; no copy is left elsewhere. Throws file_refused when it is larger than `most` bytes, and
  /// file_unreadable when any part could not be read or somebody wrote it meanwhile: never a part of it.
  [[nodiscard]] std::string read(std::size_t most);

 private:
  [[noreturn]] void fail(int error) const;
  [[nodiscard]] std::size_t read_some(char* into, std::size_t bytes) const;

  std::filesystem::path name_;
  int descriptor_;
  struct stat facts_ {};
};

/// Opens and reads. Throws as whole_file does.
[[nodiscard]] std::string read_whole_file(const std::filesystem::path& file, std::size_t most);

/// Of /proc or /sys, whose files have no size before they are read; "" when it can't be read, or not whole.
[[nodiscard]] std::string read_kernel_file(const std::filesystem::path& file);

}  // namespace penstock
