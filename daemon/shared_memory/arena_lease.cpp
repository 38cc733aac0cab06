#include "daemon/shared_memory/arena_lease.hpp"

#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/shared_memory/client_arena.hpp"
#include "daemon/shared_memory/memory_watch.hpp"
#include "daemon/shared_memory/peer_process.hpp"

namespace penstock {
namespace {

using boost::system::error_code;

constexpr auto patience = std::chrono::seconds{5};

// "PNSM", as little-endian bytes, the number and the size.
std::array<std::byte, 16> record_of(const client_arena& what) noexcept {
  std::array<std::byte, 16> record{std::byte{'P'}, std::byte{'N'}, std::byte{'S'}, std::byte{'M'}};
  const auto put = [&record](std::size_t at, std::size_t bytes, std::uint64_t value) {
    for (std::size_t each = 0; each < bytes; ++each) {
      record[at + each] = static_cast<std::byte>(value >> (8 * each));
    }
  };
  put(4, 4, what.number());
  put(8, 8, what.bytes());
  return record;
}

bool send_with_descriptor(int through, std::array<std::byte, 16> record, int descriptor) noexcept {
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
  return ::sendmsg(through, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(record.size());
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

arena_lease::arena_lease(socket peer, events tell)
    : peer_(std::move(peer)),
      who_(credentials_of(peer_.native_handle())),
      process_(peer_.get_executor()),
      tell_(std::move(tell)),
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
                              self->shown_ = true;  // from here on it is the keeper who takes the time
                              self->patience_.cancel();
                              self->wait_for_end();
                              self->watch_process();
                              if (!self->ended_) {
                                self->tell_.shown(*self, {self->ticket_.data(), self->ticket_.size()});
                              }
                            }
                          });
}

bool arena_lease::give(const client_arena& what) {
  const int its_own = memory_watch::open_again(what.descriptor());
  const int sent = its_own >= 0 ? its_own : what.descriptor();
  const bool given = !ended_ && send_with_descriptor(peer_.native_handle(), record_of(what), sent);
  if (its_own >= 0) {
    ::close(its_own);
  }
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
  const peer_process made_it = peer_process::of(peer_.native_handle());
  if (made_it.gone) {
    end();
  }
  if (made_it.descriptor < 0) {
    return;
  }
  error_code failed;
  process_.assign(made_it.descriptor, failed);
  if (failed) {
    ::close(made_it.descriptor);
    return;
  }
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
  tell_.ended(*this);
}

std::string arena_lease::peer() const {
  return who_.pid == 0 ? "an unknown process"
                       : "process " + std::to_string(who_.pid) + " of user " + std::to_string(who_.uid);
}

}  // namespace penstock
