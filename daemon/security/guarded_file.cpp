#include "daemon/security/guarded_file.hpp"

#include <array>
#include <cstdio>

#include <sys/stat.h>
#include <unistd.h>

#include "daemon/files/whole_file.hpp"
#include "daemon/pipeline/declaration.hpp"

namespace penstock {
namespace {

// Keys are 40 letters each: a file beyond this is no file of keys.
constexpr std::size_t largest = std::size_t{1} << 20U;

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
                          "; a file of keys must belong to root or to the user that runs penstockd (" +
                          std::to_string(::geteuid()) + "): chown it");
  }
  if (guard == file_guard::secret && (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse_file(file, "has mode " + octal(found.st_mode) +
                          ", so that others than its owner can use the secret key in it: chmod 600 it, and make a "
                          "new key if somebody may have read this one");
  }
  if (guard == file_guard::trusted && (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refuse_file(
        file, "has mode " + octal(found.st_mode) + ", so that others than its owner can add keys to it: chmod 644 it");
  }
}

}  // namespace

std::string read_guarded_file(const std::filesystem::path& file, file_guard guard) {
  try {
    whole_file opened(file);
    check(file, opened.facts(), guard);
    return opened.read(largest);
  } catch (const file_refused& error) {
    refuse_file(file, error.what());
  }
}

}  // namespace penstock
