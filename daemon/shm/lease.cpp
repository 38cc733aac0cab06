#include "daemon/shm/lease.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/shm/segment.hpp"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // of Linux 6.5, for older headers
#endif

namespace penstock {

peer_process peer_process::from_connection(int connection) noexcept {
  int descriptor = -1;
  socklen_t size = sizeof descriptor;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &descriptor, &size) == 0) {
    return {file_descriptor{descriptor}, false};
  }
  // Its number may be another process's by now. Then that one is watched, and the connection's end is seen as well.
  ucred who{};
  size = sizeof who;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid <= 0) {
    return {};
  }
  descriptor = static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0));
  return {file_descriptor{descriptor}, descriptor < 0 && errno == ESRCH};
}

namespace {

using boost::system::error_code;

constexpr auto patience = std::chrono::seconds{5};

// "PNSM", or "PNSD" for device memory, the number and the size, as little-endian bytes.
std::array<std::byte, 16> record_of(const client_arena& arena) noexcept {
  const bool on_device = arena.memory() == arena_memory::device;
  std::array<std::byte, 16> record{std::byte{'P'}, std::byte{'N'}, std::byte{'S'}, std::byte(on_device ? 'D' : 'M')};
  const auto put = [&record](std::size_t offset, std::size_t bytes, std::uint64_t value) {
    for (std::size_t each = 0; each < bytes; ++each) {
      record[offset + each] = static_cast<std::byte>(value >> (8 * each));
    }
  };
  put(4, 4, arena.number());
  put(8, 8, arena.bytes());
  return record;
}

bool send_with_descriptor(int socket, std::array<std::byte, 16> record, int descriptor) noexcept {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  iovec content{record.data(), record.size()};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  // The first bytes on a fresh connection always fit.
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(record.size());
}

ucred credentials_of(int connection) noexcept {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) {
    return {.pid = 0, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  }
  return who;
}

}  // namespace

arena_lease::arena_lease(socket peer, events callbacks)
    : peer_(std::move(peer)),
      credentials_(credentials_of(peer_.native_handle())),
      process_(peer_.get_executor()),
      callbacks_(std::move(callbacks)),
      patience_(peer_.get_executor()) {}

void arena_lease::wait_for_ticket() {
  patience_.expires_after(patience);
  patience_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && !self->shown_) {
      self->end();
    }
  });
  boost::asio::async_read(peer_, boost::asio::buffer(ticket_),
                          [self = shared_from_this()](const error_code& error, std::size_t /*bytes*/) {
                            if (error) {
                              self->end();
                            } else {
                              self->shown_ = true;  // from here on the server takes the time
                              self->patience_.cancel();
                              self->wait_for_end();
                              self->watch_process();
                              if (!self->ended_) {
                                self->callbacks_.shown(*self, {self->ticket_.data(), self->ticket_.size()});
                              }
                            }
                          });
}

bool arena_lease::give(const client_arena& arena) {
  // What stands for device memory can't be opened twice.
  const file_descriptor another =
      arena.memory() == arena_memory::device ? file_descriptor{} : memory_watch::open_again(arena.descriptor());
  const int sent = another ? another.number() : arena.descriptor();
  const bool given = !ended_ && send_with_descriptor(peer_.native_handle(), record_of(arena), sent);
  if (!given) {
    end();
  }
  return given;
}

// Nothing more is to come over it.
void arena_lease::wait_for_end() {
  boost::asio::async_read(
      peer_, boost::asio::buffer(nothing_),
      [self = shared_from_this()](const error_code& /*error*/, std::size_t /*bytes*/) { self->end(); });
}

// A process that is killed leaves the connection to the children that it has forked.
void arena_lease::watch_process() {
  peer_process maker = peer_process::from_connection(peer_.native_handle());
  if (maker.gone) {
    end();
  }
  if (!maker.descriptor) {
    return;
  }
  error_code failed;
  process_.assign(maker.descriptor.number(), failed);
  if (failed) {
    return;
  }
  static_cast<void>(maker.descriptor.release());
  process_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](const error_code& error) {
                        if (!error) {
                          self->end();
                        }
                      });
}

void arena_lease::end() {
  if (std::exchange(ended_, true)) {
    return;
  }
  patience_.cancel();
  error_code ignored;
  peer_.close(ignored);
  process_.close(ignored);
  callbacks_.ended(*this);
}

std::string arena_lease::peer() const {
  return credentials_.pid == 0
             ? "an unknown process"
             : "process " + std::to_string(credentials_.pid) + " of user " + std::to_string(credentials_.uid);
}

arena_lease* pending_peers::surplus(std::uint32_t user) const {
  if (count(user) >= most_of_a_user) {
    return oldest_of(user);
  }
  if (pending_.size() < most) {
    return nullptr;
  }
  const auto busiest = std::max_element(
      pending_.begin(), pending_.end(),
      [this](const pending_peer& one, const pending_peer& other) { return count(one.user) < count(other.user); });
  return oldest_of(busiest->user);
}

void pending_peers::add(arena_lease& lease, std::uint32_t user) {
  pending_.push_back({&lease, user});
}

void pending_peers::remove(const arena_lease& lease) noexcept {
  std::erase_if(pending_, [&lease](const pending_peer& each) { return each.lease == &lease; });
}

std::size_t pending_peers::count(std::uint32_t user) const noexcept {
  const auto its =
      std::count_if(pending_.begin(), pending_.end(), [user](const pending_peer& each) { return each.user == user; });
  return static_cast<std::size_t>(its);
}

arena_lease* pending_peers::oldest_of(std::uint32_t user) const noexcept {
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [user](const pending_peer& each) { return each.user == user; });
  return found != pending_.end() ? found->lease : nullptr;
}

}  // namespace penstock
