#include "daemon/security/guarded_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <string.h>  // explicit_bzero
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/pipeline/declaration.hpp"

namespace penstock {
namespace {

// Keys are 40 letters each: a file beyond this is no file of keys.
constexpr std::size_t largest = std::size_t{1} << 20U;

[[noreturn]] void refuse_file(const std::filesystem::path& file, const std::string& why) {
  throw configuration_error(file.string() + ": " + why);
}

[[noreturn]] void refuse_unreadable(const std::filesystem::path& file, int error) {
  refuse_file(file, "can't be read: " + std::generic_category().message(error));
}

std::string octal(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777U));
  return text.data();
}

class descriptor {
 public:
  // NONBLOCK: a pipe under that name must not hold the daemon up.
  explicit descriptor(const std::filesystem::path& file)
      : number_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  [[nodiscard]] int get() const noexcept { return number_; }

 private:
  int number_;
};

void check(const std::filesystem::path& file, const struct stat& found, file_guard guard) {
  if (!S_ISREG(found.st_mode)) {
    refuse_file(file, "is no regular file");
  }
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
  const descriptor opened(file);
  struct stat found {};
  if (opened.get() < 0 || ::fstat(opened.get(), &found) != 0) {
    refuse_unreadable(file, errno);
  }
  check(file, found, guard);
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t count = ::read(opened.get(), piece.data(), piece.size());
    if (count < 0 && errno != EINTR) {
      refuse_unreadable(file, errno);
    }
    if (count == 0) {
      break;
    }
    text.append(piece.data(), static_cast<std::size_t>(count > 0 ? count : 0));
    if (text.size() > largest) {
      refuse_file(file, "is larger than 1 MiB: that is no file of keys");
    }
  }
  ::explicit_bzero(piece.data(), piece.size());
  return text;
}

}  // namespace penstock
