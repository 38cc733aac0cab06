#include "client/cpp/dealer_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <netdb.h>
#include <sys/socket.h>

#include "base/thread_handover.hpp"
#include "client/cpp/endpoint.hpp"

namespace penstock::link {
namespace {

/// True for an IPv6 address and for a name without IPv4 address: libzmq resolves only one family.
bool needs_ipv6(std::string_view url) {
  constexpr std::string_view tcp = "tcp://";
  if (!url.starts_with(tcp)) {
    return false;
  }
  url.remove_prefix(std::max(tcp.size(), url.find(';') + 1));  // "tcp://SOURCE;HOST:PORT"
  const std::string host(url.substr(0, url.rfind(':')));
  const auto has_address = [&host](int family) {
    addrinfo wanted{};
    wanted.ai_family = family;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const bool any = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found) == 0;
    if (any) {
      ::freeaddrinfo(found);
    }
    return any;
  };
  return host.starts_with('[') || (!has_address(AF_INET) && has_address(AF_INET6));
}

}  // namespace

dealer_socket::dealer_socket(const client_options& options)
    : options_(options), keys_(keys_of(options)), lent_(static_cast<zmq::context_t*>(options.zmq_context)) {
  if (lent_ == nullptr) {
    context_.emplace();
  }
  [[maybe_unused]] const endpoint right = parse_endpoint(options_.url);
  connect_to(options_.url);
}

dealer_socket::~dealer_socket() {
  stop_monitor();
}

void dealer_socket::connect_to(const std::string& url) {
  stop_monitor();
  const auto milliseconds = [](std::chrono::milliseconds time) { return static_cast<int>(time.count()); };
  within_process_ = url.starts_with("inproc://");
  connection_untold_ = within_process_;
  dealer_ = zmq::socket_t{context(), zmq::socket_type::dealer};
  dealer_.set(zmq::sockopt::linger, milliseconds(options_.linger));
  // No high-water marks: the credits limit what is in flight, and `send` never blocks.
  dealer_.set(zmq::sockopt::sndhwm, 0);
  dealer_.set(zmq::sockopt::rcvhwm, 0);
  dealer_.set(zmq::sockopt::immediate, true);
  dealer_.set(zmq::sockopt::reconnect_ivl, milliseconds(options_.reconnect_after));
  dealer_.set(zmq::sockopt::reconnect_ivl_max, milliseconds(options_.reconnect_after) * 50);
  if (options_.heartbeat.count() > 0 && !within_process_) {
    dealer_.set(zmq::sockopt::heartbeat_ivl, milliseconds(options_.heartbeat));
    dealer_.set(zmq::sockopt::heartbeat_timeout, milliseconds(options_.heartbeat) * 2);
  }
  if (keys_) {
    keys_->arm(dealer_);
  }
  if (!within_process_) {
    start_monitor();
  }
  const std::string target_url = resolve_localhost(url);
  dealer_.set(zmq::sockopt::ipv6, needs_ipv6(target_url));
  dealer_.connect(target_url);
}

/// Each socket has a monitor address of its own, so that events of another socket can't be mistaken for its own.
void dealer_socket::start_monitor() {
  const std::string address = "inproc://events-" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) + "-" +
                              std::to_string(connections_++);
  events_ = zmq::socket_t{context(), zmq::socket_type::pair};
  events_.set(zmq::sockopt::linger, 0);
  constexpr int watched = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                          ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
  if (zmq_socket_monitor(dealer_.handle(), address.c_str(), watched) != 0) {
    throw zmq::error_t{};
  }
  events_.connect(address);
}

/// Must be called before either socket closes: otherwise libzmq's thread blocks forever on an event that nobody reads.
void dealer_socket::stop_monitor() noexcept {
  if (dealer_ && events_) {
    zmq_socket_monitor(dealer_.handle(), nullptr, 0);
  }
}

dealer_socket::change dealer_socket::next_change() {
  if (within_process_) {
    return std::exchange(connection_untold_, false) ? change::connected : change::none;
  }
  zmq::message_t event;
  zmq::message_t address;
  if (!events_.recv(event, zmq::recv_flags::dontwait)) {
    return change::none;
  }
  [[maybe_unused]] const auto rest = events_.recv(address, zmq::recv_flags::dontwait);
  std::uint16_t number = 0;
  std::uint32_t value = 0;
  std::memcpy(&number, event.data(), sizeof number);
  std::memcpy(&value, static_cast<const char*>(event.data()) + sizeof number, sizeof value);
  switch (number) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      return change::connected;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return change::unauthorized;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? change::mechanism_mismatch
                                                                 : change::handshake_closed;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      return change::handshake_closed;
    default:
      return change::disconnected;
  }
}

bool dealer_socket::send(std::span<zmq::message_t> parts) {
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const bool more = at + 1 < parts.size();
    if (within_process_) {
      hand_over(parts[at].data());
    }
    const auto flags = more ? zmq::send_flags::sndmore | zmq::send_flags::dontwait : zmq::send_flags::dontwait;
    if (dealer_.send(parts[at], flags)) {
      continue;
    }
    // Reading ZMQ_EVENTS processes the socket's commands, so that a connection that was just made is noticed.
    const bool can_send = (dealer_.get(zmq::sockopt::events) & ZMQ_POLLOUT) != 0;
    if (at > 0 || !can_send || !dealer_.send(parts[at], flags)) {
      return false;
    }
  }
  return true;
}

bool dealer_socket::receive(std::vector<zmq::message_t>& parts) {
  parts.clear();
  do {
    zmq::message_t part;
    if (!dealer_.recv(part, zmq::recv_flags::dontwait)) {
      return false;
    }
    if (within_process_) {
      take_over(part.data());
    }
    parts.push_back(std::move(part));
  } while (parts.back().more());
  return true;
}

bool dealer_socket::wait(int first, int second, std::chrono::milliseconds at_most) {
  if (connection_untold_) {
    return false;
  }
  std::array<zmq::pollitem_t, 4> items{{{dealer_.handle(), 0, ZMQ_POLLIN, 0},
                                        {nullptr, first, ZMQ_POLLIN, 0},
                                        {nullptr, second, ZMQ_POLLIN, 0},
                                        {events_.handle(), 0, ZMQ_POLLIN, 0}}};
  // Without a second descriptor or without events their place is the last one's.
  std::size_t count = items.size();
  if (second < 0) {
    items[2] = items[3];
    --count;
  }
  count -= within_process_ ? 1 : 0;
  try {
    zmq::poll(items.data(), count, at_most);
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) {
      throw;
    }
  }
  return second >= 0 && items[2].revents != 0;
}

}  // namespace penstock::link
