#include "base/guarded_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "base/configuration_error.hpp"
#include "base/whole_file.hpp"

namespace penstock {
namespace {

[[noreturn]] void refuse_file(const std::filesystem::path& file, const std::string& why) {
  throw configuration_error(file.string() + ": " + why);
}

std::string octal(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777U));
  return text.data();
}

void check(const std::filesystem::path& file, const struct stat& found, file_guard guard) {
  if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
    refuse_file(file, "belongs to user " + std::to_string(found.st_uid) +
                          "; a file of keys or code must belong to root or to the user that runs penstockd (" +
                          std::to_string(::geteuid()) + "): chown it");
  }
  if (guard == file_guard::secret && (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse_file(file, "has mode " + octal(found.st_mode) +
                          ", so that others than its owner can use the secret key in it: chmod 600 it, and make a "
                          "new key if somebody may have read this one");
  }
  if (guard != file_guard::secret && (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refuse_file(file, "has mode " + octal(found.st_mode) + ", so that others than its owner can " +
                          (guard == file_guard::trusted ? "add keys to it" : "change its code") + ": chmod go-w it");
  }
}

// A user who can write to a folder can replace its files, unless the folder is sticky.
void check_folder(const std::filesystem::path& file, const std::filesystem::path& folder) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) {
    refuse_file(file,
                "its folder " + folder.string() + " can't be looked at: " + std::generic_category().message(errno));
  }
  if (found.st_uid != 0 && found.st_uid != ::geteuid()) {
    refuse_file(file, "lies in " + folder.string() + ", which belongs to user " + std::to_string(found.st_uid) +
                          ", who could put another file there: use a folder of root's or of the user's that runs "
                          "penstockd (" +
                          std::to_string(::geteuid()) + ")");
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (found.st_mode & S_ISVTX) == 0) {
    refuse_file(file, "lies in " + folder.string() + ", which has mode " + octal(found.st_mode) +
                          ", so that others could put another file there: chmod go-w it");
  }
}

}  // namespace

void check_guarded_folders(const std::filesystem::path& file) {
  std::error_code unknown;
  for (const std::filesystem::path& name : {std::filesystem::absolute(file, unknown).lexically_normal(),
                                            std::filesystem::weakly_canonical(file, unknown)}) {
    for (std::filesystem::path each = name.parent_path(); !each.empty(); each = each.parent_path()) {
      check_folder(file, each);
      if (each == each.root_path()) {
        break;
      }
    }
  }
}

std::string file_state(const std::filesystem::path& file, const struct stat& found) {
  std::string state = file.string();
  for (const auto number :
       {static_cast<std::int64_t>(found.st_ino), static_cast<std::int64_t>(found.st_size),
        static_cast<std::int64_t>(found.st_mtim.tv_sec), static_cast<std::int64_t>(found.st_mtim.tv_nsec),
        static_cast<std::int64_t>(found.st_ctim.tv_sec), static_cast<std::int64_t>(found.st_ctim.tv_nsec)}) {
    state += ' ' + std::to_string(number);
  }
  return state;
}

std::string guarded_folder_state(const std::filesystem::path& folder, std::size_t most) {
  namespace fs = std::filesystem;
  check_guarded_folders(folder / ".");
  std::vector<std::string> states;
  std::error_code failed;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator each(folder, options, failed), end; !failed && each != end;
       each.increment(failed)) {
    const fs::path& file = each->path();
    struct stat found {};
    if (::stat(file.c_str(), &found) != 0) {
      continue;  // a link to nowhere
    }
    if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
      continue;  // a socket, which no compiler reads
    }
    check(file, found, file_guard::code);
    if (each->is_symlink(failed)) {
      check_guarded_folders(file);
    }
    states.push_back(file_state(file, found));
    if (states.size() > most) {
      refuse_file(folder, "has more than " + std::to_string(most) + " files");
    }
  }
  if (failed) {
    refuse_file(folder, "can't be read: " + failed.message());
  }
  std::sort(states.begin(), states.end());
  std::string all;
  for (const std::string& each : states) {
    all += each + '\n';
  }
  return all;
}

std::string read_guarded_file(const std::filesystem::path& file, file_guard guard, std::size_t most) {
  try {
    whole_file opened(file);
    check(file, opened.facts(), guard);
    check_guarded_folders(file);
    return opened.read(most);
  } catch (const file_refused& error) {
    refuse_file(file, error.what());
  }
}

}  // namespace penstock
