#include "base/unix_listener.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/configuration_error.hpp"

namespace penstock {
namespace {

constexpr int waiting_connections = 100;

[[noreturn]] void fail(const std::string& why, int error) {
  throw std::runtime_error(why + ": " + std::generic_category().message(error));
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw std::runtime_error("the path has " + std::to_string(path.size()) + " bytes; the system takes at most " +
                             std::to_string(sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

file_descriptor new_socket() {
  file_descriptor made{::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!made) {
    fail("cannot make a socket", errno);
  }
  return made;
}

const sockaddr* plain(const sockaddr_un& address) noexcept {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

// Removes what an earlier process has left there.
void make_way(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    return;  // bind says what is wrong, if anything is
  }
  if (!S_ISSOCK(found.st_mode)) {
    throw std::runtime_error("there is a file of that name which is no socket");
  }
  const int refused = ::connect(new_socket().number(), plain(address), sizeof address) == 0 ? 0 : errno;
  if (refused == 0 || refused == EAGAIN) {
    throw std::runtime_error("another process listens there");
  }
  if (refused != ECONNREFUSED && refused != ENOENT) {
    fail("cannot tell whether another process listens there", refused);
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    fail("cannot remove the socket that an earlier process has left there", errno);
  }
}

}  // namespace

std::optional<gid_t> group_of(const std::string& name) {
  if (name.empty()) {
    return std::nullopt;
  }
  std::array<char, 16384> room{};
  group entry{};
  group* found = nullptr;
  const int failed = ::getgrnam_r(name.c_str(), &entry, room.data(), room.size(), &found);
  if (failed == ENOMEM) {
    throw std::bad_alloc();
  }
  if (failed != 0 && failed != ENOENT) {
    throw std::system_error(failed, std::generic_category(), "cannot look for the group \"" + name + "\"");
  }
  if (found == nullptr) {
    throw configuration_error("field 'security.ipc_group': there is no group \"" + name + "\" on this machine");
  }
  return found->gr_gid;
}

ipc_listener::ipc_listener(std::string path, const ipc_access& access) : path_(std::move(path)) {
  const sockaddr_un address = address_of(path_);
  make_way(path_, address);
  descriptor_ = new_socket();
  try {
    // Linux gives a socket's file the mode of the socket, so that it is the owner's alone until it has its group.
    if (::fchmod(descriptor_.number(), access.mode & S_IRWXU) != 0 ||
        ::bind(descriptor_.number(), plain(address), sizeof address) != 0) {
      fail("cannot bind", errno);
    }
    listen(access);
  } catch (...) {
    remove();
    throw;
  }
}

void ipc_listener::listen(const ipc_access& access) {
  struct stat made {};
  if (::lstat(path_.c_str(), &made) != 0) {
    fail("cannot look at the socket's file", errno);
  }
  device_ = made.st_dev;
  inode_ = made.st_ino;
  if (access.group && ::lchown(path_.c_str(), static_cast<uid_t>(-1), *access.group) != 0) {
    fail("cannot give the socket to security.ipc_group (the daemon's user must belong to it)", errno);
  }
  if (::fchmodat(AT_FDCWD, path_.c_str(), access.mode, AT_SYMLINK_NOFOLLOW) != 0) {
    fail("cannot give the socket the mode security.ipc_mode", errno);
  }
  if (::listen(descriptor_.number(), waiting_connections) != 0) {
    fail("cannot listen", errno);
  }
}

ipc_listener::ipc_listener(ipc_listener&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::move(other.descriptor_)),
      device_(std::exchange(other.device_, 0)),
      inode_(std::exchange(other.inode_, 0)) {}

ipc_listener::~ipc_listener() {
  remove();
}

void ipc_listener::remove() noexcept {
  descriptor_.close();
  struct stat there {};
  if (inode_ != 0 && ::lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ && there.st_ino == inode_) {
    ::unlink(path_.c_str());
  }
}

}  // namespace penstock
