#include "base/whole_file.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace penstock {
namespace {

// NONBLOCK: a pipe under that name must not hold the daemon up.
file_descriptor open_to_read(const std::filesystem::path& file) noexcept {
  int made = -1;
  do {
    made = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (made < 0 && errno == EINTR);
  return file_descriptor{made};
}

// Of a name, as long as nobody changes what it stands for; ENXIO is a socket's.
bool is_of_the_name(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
    case EISDIR:
    case ENXIO:
      return true;
    default:
      return false;
  }
}

std::string text_of(int error) {
  return "can't be read: " + std::generic_category().message(error);
}

std::string text_of_limit(std::size_t bytes) {
  const bool small = bytes < std::size_t{1} << 20U;
  return "is larger than " + std::to_string(bytes >> (small ? 10U : 20U)) + (small ? " KiB" : " MiB");
}

}  // namespace

whole_file::whole_file(std::filesystem::path name) : name_(std::move(name)), descriptor_(open_to_read(name_)) {
  if (!descriptor_ || ::fstat(descriptor_.number(), &facts_) != 0) {
    fail(errno);
  }
  if (!S_ISREG(facts_.st_mode)) {
    throw file_refused(S_ISDIR(facts_.st_mode) ? text_of(EISDIR) : "is no regular file");
  }
}

void whole_file::fail(int error) const {
  if (is_of_the_name(error)) {
    throw file_refused(text_of(error));
  }
  throw file_unreadable(name_.string() + ": " + text_of(error));
}

std::size_t whole_file::read_some(char* into, std::size_t bytes) const {
  for (;;) {
    const ssize_t count = ::read(descriptor_.number(), into, bytes);
    if (count >= 0) {
      return static_cast<std::size_t>(count);
    }
    if (errno != EINTR) {
      throw file_unreadable(name_.string() + ": " + text_of(errno));
    }
  }
}

std::string whole_file::read(std::size_t most) {
  const auto size = static_cast<std::size_t>(facts_.st_size);
  if (size > most) {
    throw file_refused(text_of_limit(most));
  }
  std::string text(size + 1, '\0');  // with room to see that there is more
  std::size_t count = 0;
  while (count < text.size()) {
    const std::size_t more = read_some(text.data() + count, text.size() - count);
    if (more == 0) {
      break;
    }
    count += more;
  }
  struct stat after {};
  if (::fstat(descriptor_.number(), &after) != 0) {
    throw file_unreadable(name_.string() + ": " + text_of(errno));
  }
  const bool changed = after.st_size != facts_.st_size || after.st_mtim.tv_sec != facts_.st_mtim.tv_sec ||
                       after.st_mtim.tv_nsec != facts_.st_mtim.tv_nsec;
  if (count != size || changed) {
    throw file_unreadable(name_.string() +
                          ": was written while it was read: write a new file beside it, and rename that");
  }
  text.resize(size);
  return text;
}

std::string read_whole_file(const std::filesystem::path& file, std::size_t most) {
  return whole_file(file).read(most);
}

std::string read_kernel_file(const std::filesystem::path& file) {
  constexpr std::size_t piece = 4096;
  const file_descriptor opened = open_to_read(file);
  if (!opened) {
    return "";
  }
  std::string text;
  std::size_t count = 0;
  for (;;) {
    text.resize(count + piece);
    const ssize_t more = ::read(opened.number(), text.data() + count, piece);
    if (more > 0) {
      count += static_cast<std::size_t>(more);
    } else if (more == 0 || errno != EINTR) {
      text.resize(more == 0 ? count : 0);
      return text;
    }
  }
}

}  // namespace penstock
