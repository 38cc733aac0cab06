#include "daemon/shared_memory/peer_process.hpp"

#include <cerrno>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // of Linux 6.5, for older headers
#endif

namespace penstock {

peer_process peer_process::of(int connection) noexcept {
  int descriptor = -1;
  socklen_t size = sizeof descriptor;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &size) == 0) {
    return {descriptor, false};
  }
  // Its number may be another process's by now. Then that one is watched, and the connection's end is seen as well.
  ucred who{};
  size = sizeof who;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid <= 0) {
    return {};
  }
  descriptor = static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0));
  return {descriptor, descriptor < 0 && errno == ESRCH};
}

}  // namespace penstock
