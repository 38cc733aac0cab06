#include "base/descriptors.hpp"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <unistd.h>

namespace penstock {

void file_descriptor::close() noexcept {
  if (number_ >= 0) {
    ::close(release());
  }
}

void occupy_standard_descriptors() noexcept {
  for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(each, F_GETFD) == -1) {
      [[maybe_unused]] const int taken = ::open("/dev/null", each == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

// Where the file system has no locks nobody is kept out.
bool lock_file(int descriptor) noexcept {
  return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

bool write_all(int descriptor, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return false;
    }
    bytes.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
  }
  return true;
}

wake_event::wake_event() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!descriptor_) {
    throw std::system_error(errno, std::generic_category(), "cannot open an eventfd");
  }
}

// A full counter wakes already, and an empty one is clear already: neither result matters.
void wake_event::signal() noexcept {
  const int before = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(descriptor(), &one, sizeof one);
  errno = before;
}

void wake_event::clear() noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(descriptor(), &count, sizeof count);
}

void wake_event::awake() noexcept {
  sleeping_.store(false, std::memory_order_relaxed);
  // Whether or not somebody signalled: a waker that was overtaken signals late, and would end every later sleep.
  clear();
}

void wake_event::wake() noexcept {
  // Sequentially consistent on both sides: either this sees `sleeping`, or the sleeper's last look sees the push.
  if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false, std::memory_order_seq_cst)) {
    signal();
  }
}

}  // namespace penstock
