#include "client/cli/output_file.hpp"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace penstock::cli {

output_file::output_file() : path_("the standard output"), descriptor_(STDOUT_FILENO) {}

output_file::output_file(std::filesystem::path path, existing_file existing)
    : path_(std::move(path)),
      file_(::open(path_.c_str(),
                   O_WRONLY | O_CREAT | O_CLOEXEC | (existing == existing_file::replace ? O_TRUNC : O_EXCL), 0666)),
      descriptor_(file_.number()) {
  if (descriptor_ < 0) {
    fail(errno);
  }
}

void output_file::fail(int error) const {
  throw std::runtime_error("can't write " + path_.string() + ": " + std::strerror(error));
}

void output_file::append(std::span<const std::byte> piece) {
  std::span<const std::byte> left = piece;
  while (!left.empty()) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written >= 0) {
      left = left.subspan(static_cast<std::size_t>(written));
      continue;
    }
    const int error = errno;
    if (error == EAGAIN) {  // another process made the standard output non-blocking
      pollfd descriptor{descriptor_, POLLOUT, 0};
      ::poll(&descriptor, 1, -1);
    } else if (error != EINTR) {
      [[maybe_unused]] const int cut = file_ ? ::ftruncate(descriptor_, static_cast<off_t>(size_)) : 0;
      fail(error);
    }
  }
  size_ += piece.size();
}

void output_file::replace_beginning(std::string_view beginning) {
  std::size_t done = 0;
  while (done < beginning.size()) {
    const ssize_t written =
        ::pwrite(descriptor_, beginning.data() + done, beginning.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) {
      fail(errno);
    }
    done += written > 0 ? static_cast<std::size_t>(written) : 0;
  }
}

}  // namespace penstock::cli
