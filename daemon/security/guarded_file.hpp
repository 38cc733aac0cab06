#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// Who but its owner may touch a file.
enum class file_guard {
  secret,   ///< nobody: not even read it
  trusted,  ///< others may read it, but not write it
};

/// The whole text of a file that has the owner and the mode that `guard` asks for: a regular file of root's or of this
/// process's user, in folders that nobody else can write (but for sticky ones, as /tmp is), up to the root. What is
/// judged is the opened file itself, so that it can't be another one by the time it is read. Throws
/// configuration_error, which names the file, its mode and what to do; file_unreadable (daemon/files) when the file
/// could not be read this time.
[[nodiscard]] std::string read_guarded_file(const std::filesystem::path& file, file_guard guard);

}  // namespace penstock
