#include "daemon/live/network/udp_writer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>

#include <netdb.h>
#include <sys/uio.h>

namespace penstock::live {
namespace {

std::runtime_error cannot_send(const std::string& to, const std::string& why) {
  return std::runtime_error("cannot send to " + to + ": " + why);
}

bool has_no_room(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS;
}

// Of a receiver or network that is not there just now. It is no fault of the socket's.
bool is_passing(int error) noexcept {
  return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN ||
         error == EHOSTDOWN;
}

}  // namespace

udp_writer::udp_writer(const udp_writer_settings& settings) : settings_(settings) {
  const std::size_t colon = settings.to.rfind(':');
  if (colon == std::string::npos) {
    throw cannot_send(settings.to, "it is not HOST:PORT");
  }
  std::string host = settings.to.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), settings.to.substr(colon + 1).c_str(), &hints, &found);
      error != 0) {
    throw cannot_send(settings.to, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  socket_ = file_descriptor(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) {
    throw cannot_send(settings.to, std::generic_category().message(errno));
  }
  std::memcpy(&address_, found->ai_addr, found->ai_addrlen);
  address_bytes_ = found->ai_addrlen;
  const int bytes = static_cast<int>(settings.socket_buffer);
  (void)::setsockopt(socket_.number(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void udp_writer::descriptors(std::vector<pollfd>& wanted) const {
  if (is_full_) {
    wanted.push_back({socket_.number(), POLLOUT, 0});
  }
}

write_progress udp_writer::write(const result_message& message) {
  const std::size_t items =
      std::max<std::size_t>(settings_.datagram_bytes / message.item_bytes, 1) * message.item_bytes;
  const std::size_t most = std::min(items, settings_.datagram_bytes);
  bool missed = false;
  is_full_ = false;
  while (sent_ < message.bytes.size()) {
    const std::span<const std::byte> next = message.bytes.subspan(sent_, std::min(most, message.bytes.size() - sent_));
    std::array<iovec, 2> parts{
        {{&number_, sizeof number_}, {const_cast<std::byte*>(next.data()), next.size()}}};  // it is only read
    msghdr datagram{};
    datagram.msg_name = &address_;
    datagram.msg_namelen = address_bytes_;
    datagram.msg_iov = settings_.has_numbers ? parts.data() : &parts[1];
    datagram.msg_iovlen = settings_.has_numbers ? 2 : 1;
    if (::sendmsg(socket_.number(), &datagram, MSG_DONTWAIT) < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (has_no_room(errno) && !settings_.drops) {
        is_full_ = true;
        return write_progress::full;
      }
      if (!has_no_room(errno) && !is_passing(errno)) {
        failure_ = cannot_send(settings_.to, std::generic_category().message(errno)).what();
        return write_progress::failed;
      }
      missed = true;
    }
    ++number_;
    sent_ += next.size();
  }
  sent_ = 0;
  return missed ? write_progress::dropped : write_progress::written;
}

}  // namespace penstock::live
