#include "daemon/code/code_cache.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/configuration_error.hpp"
#include "base/descriptors.hpp"
#include "base/guarded_file.hpp"
#include "base/sha256.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view ending = ".code";
constexpr std::string_view part_ending = ".part";
/// A part that is older was left by a process that was killed.
constexpr std::chrono::hours oldest_part{1};
constexpr std::size_t digits = 64;

/// The digits of the rest, a line's end, the rest.
std::optional<std::string> checked(std::string text) {
  if (text.size() <= digits || text[digits] != '\n') {
    return std::nullopt;
  }
  std::string rest = text.substr(digits + 1);
  return text.compare(0, digits, sha256_of(rest)) == 0 ? std::optional(std::move(rest)) : std::nullopt;
}

struct kept_file {
  fs::path path;
  std::size_t bytes = 0;
  fs::file_time_type used;
};

}  // namespace

code_cache::code_cache(fs::path folder, std::size_t most) : folder_(std::move(folder)), most_(most) {}

fs::path code_cache::file_of(std::string_view key) const {
  return folder_ / std::string(key).append(ending);
}

std::string code_cache::prepare(const fs::path& folder) {
  fs::path made;
  for (const fs::path& each : folder) {
    made /= each;
    if (::mkdir(made.c_str(), S_IRWXU) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) {
      return made.string() + " can't be made: " + std::generic_category().message(errno);
    }
  }
  if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    return folder.string() + " can't be written to, or made: " + std::generic_category().message(errno);
  }
  try {
    check_guarded_folders(folder / ".");
  } catch (const configuration_error& error) {
    return error.what();
  }
  return "";
}

std::optional<std::string> code_cache::find(std::string_view key) const {
  if (folder_.empty()) {
    return std::nullopt;
  }
  const fs::path file = file_of(key);
  try {
    std::error_code unknown;
    if (!fs::exists(file, unknown)) {
      return std::nullopt;
    }
    std::optional<std::string> found = checked(read_guarded_file(file, file_guard::code, most_));
    if (found) {
      ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0);  // the oldest goes first
    }
    return found;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void code_cache::keep(std::string_view key, std::string_view text) const noexcept {
  if (folder_.empty() || text.size() > most_) {
    return;
  }
  try {
    write(file_of(key), text);
    trim();
  } catch (const std::exception&) {  // it is compiled again
  }
}

// Another daemon that keeps the same text, or reads it, sees a whole file.
void code_cache::write(const fs::path& file, std::string_view text) const {
  check_guarded_folders(file);
  std::string part = file.string() + ".XXXXXX" + std::string(part_ending);
  file_descriptor open(::mkostemps(part.data(), static_cast<int>(part_ending.size()), O_CLOEXEC));
  if (!open) {
    return;
  }
  const std::string whole = sha256_of(text) + "\n" + std::string(text);
  const bool written = write_all(open.number(), whole);
  std::error_code failed;
  if (written) {
    fs::rename(part, file, failed);
  }
  if (!written || failed) {
    fs::remove(part, failed);
  }
}

void code_cache::trim() const {
  std::vector<kept_file> all;
  std::size_t bytes = 0;
  std::error_code gone;  // another daemon trims too
  for (const fs::directory_entry& each : fs::directory_iterator(folder_)) {
    const fs::file_time_type used = each.last_write_time(gone);
    const std::uintmax_t size = gone ? 0 : each.file_size(gone);
    if (gone) {
      continue;
    }
    if (each.path().extension() == part_ending && fs::file_time_type::clock::now() - used > oldest_part) {
      fs::remove(each.path(), gone);
    } else if (each.path().extension() == ending) {
      all.push_back({each.path(), static_cast<std::size_t>(size), used});
      bytes += all.back().bytes;
    }
  }
  std::sort(all.begin(), all.end(),
            [](const kept_file& left, const kept_file& right) { return left.used < right.used; });
  for (auto oldest = all.begin(); bytes > most_ && oldest != all.end(); ++oldest) {
    fs::remove(oldest->path, gone);
    bytes -= oldest->bytes;
  }
}

}  // namespace penstock
