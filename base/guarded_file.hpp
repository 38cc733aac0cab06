#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <sys/stat.h>

namespace penstock {

/// What others than its owner may do with a file.
enum class file_guard : std::uint8_t {
  secret,   ///< nothing
  trusted,  ///< read it
  code,     ///< read it: it is run
};

/// Reads a regular file of root or of this process's user, of at most `most` bytes. Its mode must allow others no more
/// than `guard` says, and nobody else may be able to write to a folder above it (except sticky ones such as /tmp). The
/// check is of the opened file, so it can't be replaced in between. Throws configuration_error, which names the file,
/// its mode and the remedy; file_unreadable (base/whole_file.hpp) if the file could not be read this time.
[[nodiscard]] std::string read_guarded_file(const std::filesystem::path& file, file_guard guard, std::size_t most);

/// Throws configuration_error, which names the file, if somebody else than root and this process's user can write to a
/// folder above it (except sticky ones), of the given name or of where its links lead. The file need not exist.
void check_guarded_folders(const std::filesystem::path& file);
/// A text that is another once the file is changed: its name, size and times.
[[nodiscard]] std::string file_state(const std::filesystem::path& file, const struct stat& found);
/// Judges all files and folders below a folder of code as read_guarded_file does, without reading them. Returns a text
/// of the file_state of each. Throws configuration_error, also for more than
/// `most` files.
[[nodiscard]] std::string guarded_folder_state(const std::filesystem::path& folder, std::size_t most);

}  // namespace penstock
