#pragma once

#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include <sys/stat.h>

#include "base/descriptors.hpp"

namespace penstock {

/// The file can't be read until it is changed: it is missing, forbidden, no regular file, or too large. what() says
/// why, without the name.
class file_refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The file could not be read this time: a fault of the disk, no memory, no descriptor, or it was written meanwhile.
/// what() begins with the name.
class file_unreadable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A regular file, opened to be read whole. Pipes, terminals and the like are refused without blocking. A file system
/// that hangs does block.
class whole_file {
 public:
  /// Throws file_refused or file_unreadable.
  explicit whole_file(std::filesystem::path name);

  /// Of the opened file, whatever its name stands for by now.
  [[nodiscard]] const struct stat& facts() const noexcept { return facts_; }
  /// All of it, once; no copy stays elsewhere. Throws file_refused when it is larger than `most` bytes, and
  /// file_unreadable when a part could not be read or the file was written meanwhile.
  [[nodiscard]] std::string read(std::size_t most);
  /// The file, open for reading, of one that is too large to be read whole.
  [[nodiscard]] file_descriptor take() noexcept { return std::move(descriptor_); }

 private:
  [[noreturn]] void fail(int error) const;
  [[nodiscard]] std::size_t read_some(char* into, std::size_t bytes) const;

  std::filesystem::path name_;
  file_descriptor descriptor_;
  struct stat facts_ {};
};

/// Opens and reads. Throws as whole_file does.
[[nodiscard]] std::string read_whole_file(const std::filesystem::path& file, std::size_t most);

/// A file of /proc or /sys, which have no size before they are read; "" when it can't be read whole.
[[nodiscard]] std::string read_kernel_file(const std::filesystem::path& file);

}  // namespace penstock
