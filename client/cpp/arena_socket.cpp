#include "client/cpp/arena_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <stdexcept>

#include <sys/socket.h>
#include <sys/un.h>

#include "client/cpp/last_error.hpp"

namespace penstock::link {
namespace {

constexpr std::size_t ticket_digits = 32;

/// "@name" is an abstract address, whose first byte is 0.
std::string path_of(std::string text) {
  if (text.size() < 2 || text.size() >= sizeof(sockaddr_un{}.sun_path) || text.find('\0') != std::string::npos) {
    throw std::runtime_error("the daemon names no Unix socket");
  }
  if (text.front() == '@') {
    text.front() = '\0';
  }
  return text;
}

bool is_ticket(const std::string& text) {
  return text.size() == ticket_digits && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

template <class Integer>
Integer little_endian(std::span<const std::byte> from) {
  Integer value = 0;
  for (std::size_t at = 0; at < sizeof value; ++at) {
    value |= std::to_integer<Integer>(from[at]) << (8U * at);
  }
  return value;
}

/// The descriptor that came with a message; an empty one when none did.
file_descriptor descriptor_in(msghdr& message) {
  file_descriptor found;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS && each->cmsg_len >= CMSG_LEN(sizeof(int))) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(each), sizeof number);
      found = file_descriptor{number};
    }
  }
  return found;
}

}  // namespace

arena_socket::arena_socket(const wire::attached& where)
    : path_(path_of(where.socket)),
      ticket_(where.ticket),
      socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  if (!is_ticket(ticket_)) {
    throw std::runtime_error("the daemon's ticket is none");
  }
  if (!socket_) {
    throw_last_error("a Unix socket");
  }
}

arena_socket::~arena_socket() {
  ::shutdown(socket_.number(), SHUT_RDWR);
}

bool arena_socket::connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path_.begin(), path_.end(), std::begin(address.sun_path));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
  if (::connect(socket_.number(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno == EAGAIN || errno == EINTR) {  // too many wait there
      return false;
    }
    throw_last_error("connecting to the daemon's Unix socket, which can be reached on its machine alone");
  }
  if (::send(socket_.number(), ticket_.data(), ticket_.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(ticket_.size())) {
    throw_last_error("showing the ticket for shared memory");
  }
  return true;
}

bool arena_socket::receive() {
  while (received_ < answer_.size()) {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
    const std::span<std::byte> rest = std::span{answer_}.subspan(received_);
    iovec where{rest.data(), rest.size()};
    msghdr message{};
    message.msg_iov = &where;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket_.number(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return false;
    }
    if (got < 0) {
      throw_last_error("fetching shared memory");
    }
    if (got == 0) {
      throw std::runtime_error("the daemon gave no shared memory; its log says why");
    }
    received_ += static_cast<std::size_t>(got);
    if (file_descriptor came = descriptor_in(message)) {
      memory_ = std::move(came);
    }
  }
  return true;
}

std::shared_ptr<arena> arena_socket::fetch() {
  connected_ = connected_ || connect();
  if (!connected_ || !receive()) {
    return nullptr;
  }
  const std::span<const std::byte> answer{answer_};
  if (std::memcmp(answer.data(), "PNSM", 4) != 0 || !memory_) {
    throw std::runtime_error("the daemon's answer to the ticket makes no sense");
  }
  const file_descriptor memory = std::move(memory_);  // the mapping does not need it
  return arena::map(memory, little_endian<std::uint32_t>(answer.subspan(4)),
                    little_endian<std::uint64_t>(answer.subspan(8)));
}

bool arena_socket::ended() const noexcept {
  std::byte more{};
  const ssize_t got = ::recv(socket_.number(), &more, sizeof more, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace penstock::link
