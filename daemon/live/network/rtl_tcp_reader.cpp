#include "daemon/live/network/rtl_tcp_reader.hpp"

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <system_error>

#include <netdb.h>
#include <sys/socket.h>

namespace penstock::live {
namespace {

constexpr std::size_t memory_bytes = std::size_t{256} << 10U;
constexpr std::size_t sample_bytes = 2;

std::string reason(int error) {
  return std::generic_category().message(error);
}

}  // namespace

rtl_tcp_reader::rtl_tcp_reader(const rtl_tcp_settings& settings, time_point now)
    : settings_(settings), deadline_(now + settings.patience), memory_(memory_bytes) {
  const std::string what = "cannot connect to " + settings.server;
  const std::size_t colon = settings.server.rfind(':');
  if (colon == std::string::npos) {
    throw std::runtime_error(what + ": it is not HOST:PORT");
  }
  std::string host = settings.server.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), settings.server.substr(colon + 1).c_str(), &hints, &found);
      error != 0) {
    throw std::runtime_error(what + ": " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    socket_ = file_descriptor(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_) {
      error = errno;
    } else if (::connect(socket_.number(), each->ai_addr, each->ai_addrlen) == 0 || errno == EINPROGRESS) {
      const int one = 1;
      (void)::setsockopt(socket_.number(), SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
      return;
    } else {
      error = errno;
    }
  }
  throw std::runtime_error(what + ": " + reason(error));
}

void rtl_tcp_reader::descriptors(std::vector<pollfd>& wanted) const {
  wanted.push_back({socket_.number(), static_cast<short>(state_ == state_of::connecting ? POLLOUT : POLLIN), 0});
}

sample_reader::time_point rtl_tcp_reader::wanted_at() const {
  return state_ == state_of::streaming ? time_point::max() : deadline_;
}

read_progress rtl_tcp_reader::fail(sample_receiver& receiver, const std::string& why) {
  failure_ = settings_.server + ": " + why;
  if (state_ != state_of::connecting) {
    receiver.connected(false, settings_.server);
  }
  return read_progress::failed;
}

read_progress rtl_tcp_reader::read(sample_receiver& receiver, time_point now, time_point until) {
  const time_point began = std::chrono::steady_clock::now();
  read_progress progress = read_progress::none;
  if (state_ != state_of::streaming && now >= deadline_) {
    return fail(receiver, state_ == state_of::connecting ? "no connection in time" : "it sends no greeting");
  }
  if (state_ == state_of::connecting && !is_connected(receiver, progress)) {
    return progress;
  }
  if (state_ == state_of::greeting && !is_greeted(receiver, progress)) {
    return progress;
  }
  do {
    // Straight into the receiver's memory, but for a sample of which only half was there.
    const std::span<std::byte> room = half_ ? std::span<std::byte>() : receiver.room(stream_);
    const std::span<std::byte> to = room.size() >= sample_bytes ? room : std::span(memory_);
    const std::size_t before = half_ ? 1 : 0;
    if (half_) {
      to.front() = *half_;
    }
    const ssize_t count = ::recv(socket_.number(), to.data() + before, to.size() - before, MSG_DONTWAIT);
    if (count == 0) {
      return fail(receiver, "the server closed the connection");
    }
    if (count < 0) {
      if (errno == EINTR) {
        continue;
      }
      return errno == EAGAIN || errno == EWOULDBLOCK ? progress : fail(receiver, reason(errno));
    }
    progress = read_progress::some;
    const std::size_t bytes = before + static_cast<std::size_t>(count);
    half_ = bytes % sample_bytes != 0 ? std::optional(to[bytes - 1]) : std::nullopt;
    if (const std::size_t whole = bytes - bytes % sample_bytes; whole > 0) {
      const auto arrival = std::chrono::system_clock::now().time_since_epoch();
      receiver.samples(stream_, {.bytes = to.first(whole),
                                 .time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(arrival).count(),
                                 .quality = time_quality::arrival});
    }
  } while (now + (std::chrono::steady_clock::now() - began) < until);
  return read_progress::some;
}

bool rtl_tcp_reader::is_connected(sample_receiver& receiver, read_progress& progress) {
  pollfd ready{socket_.number(), POLLOUT, 0};
  if (::poll(&ready, 1, 0) == 0) {
    progress = read_progress::none;
    return false;
  }
  int error = 0;
  socklen_t length = sizeof error;
  (void)::getsockopt(socket_.number(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    progress = fail(receiver, reason(error));
    return false;
  }
  state_ = state_of::greeting;
  return true;
}

bool rtl_tcp_reader::is_greeted(sample_receiver& receiver, read_progress& progress) {
  while (first_bytes_ < first_.size()) {
    const ssize_t count =
        ::recv(socket_.number(), first_.data() + first_bytes_, first_.size() - first_bytes_, MSG_DONTWAIT);
    if (count == 0) {
      progress = fail(receiver, "the server closed the connection before its greeting");
      return false;
    }
    if (count < 0 && errno != EINTR) {
      progress = errno == EAGAIN || errno == EWOULDBLOCK ? read_progress::none : fail(receiver, reason(errno));
      return false;
    }
    first_bytes_ += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  greeting_ = read_rtl_tcp_greeting(first_);
  if (!greeting_) {
    progress = fail(receiver, "it does not speak rtl_tcp");
    return false;
  }
  const std::optional<stream_number> number = receiver.stream(settings_.stream_name);
  if (!number) {
    progress = fail(receiver, "the source has no stream left");
    return false;
  }
  stream_ = *number;
  state_ = state_of::streaming;
  receiver.connected(true, settings_.server);
  receiver.epoch(stream_, "connected");
  tell_dongle();
  return true;
}

void rtl_tcp_reader::tell_dongle() {
  const auto tell = [&](rtl_tcp_command command, const std::optional<std::uint32_t>& value) {
    if (value) {
      // A new connection has room for ten bytes; if it has not, the dongle stays as it is, as without this.
      const rtl_tcp_message message = encode(command, *value);
      (void)::send(socket_.number(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  };
  tell(rtl_tcp_command::sample_rate, settings_.sample_rate);
  tell(rtl_tcp_command::frequency, settings_.frequency);
}

}  // namespace penstock::live
