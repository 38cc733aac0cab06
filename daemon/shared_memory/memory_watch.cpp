#include "daemon/shared_memory/memory_watch.hpp"

#include <cerrno>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace penstock {

// Whoever opens the file while there is a lease makes the kernel send its holder a signal: SIGIO, which ends a process,
// unless the descriptor has another. This one does nothing where nobody handles it.
memory_watch::memory_watch(int file) noexcept : own_(open_again(file)) {
  if (own_ >= 0) {
    ::fcntl(own_, F_SETSIG, SIGURG);
  }
}

memory_watch::~memory_watch() {
  if (own_ >= 0) {
    ::close(own_);
  }
}

// A lease for writing is given to who alone has the file open, and a mapping keeps open what it was made of.
bool memory_watch::sees_anybody() const noexcept {
  if (own_ < 0) {
    return false;
  }
  if (::fcntl(own_, F_SETLEASE, F_WRLCK) != 0) {
    return errno == EAGAIN;
  }
  ::fcntl(own_, F_SETLEASE, F_UNLCK);
  return false;
}

// The kernel does not count the first descriptor, which memfd_create made, among those that have the file open.
int memory_watch::open_again(int file) noexcept {
  return ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace penstock
