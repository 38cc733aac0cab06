#include "daemon/net/router_socket.hpp"

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string_view>

#include "base/thread_handover.hpp"
#include "daemon/net/connection_limits.hpp"

namespace penstock {
namespace {

constexpr std::string_view ipc = "ipc://";
constexpr std::string_view localhost = "tcp://localhost:";
constexpr int shortest_linger_ms = 100;

}  // namespace

router_socket::router_socket(const router_settings& settings) try
    : context_(settings.io_threads),
      socket_(context_, zmq::socket_type::router),
      zap_handler_(context_, socket_, settings.keys) {
  limit(settings);
  socket_.bind(inner_endpoint);
  for (const std::string& endpoint : settings.listen) {
    try {
      bind(endpoint, settings.ipc);
    } catch (const zmq::error_t& error) {
      throw std::runtime_error(
          "cannot listen on " + endpoint + ": " +
          (error.num() == ENODEV ? "this machine has no such interface or address" : error.what()));
    } catch (const std::exception& error) {
      throw std::runtime_error("cannot listen on " + endpoint + ": " + error.what());
    }
  }
} catch (const zmq::error_t& error) {
  if (error.num() == ENOMEM) {
    throw std::bad_alloc();
  }
  throw std::runtime_error(std::string("ZeroMQ can't make its sockets: ") + error.what() +
                           (error.num() == EMFILE ? " (raise the limit of open files: ulimit -n, LimitNOFILE)" : ""));
}

void router_socket::limit(const router_settings& settings) {
  // Without MANDATORY a reply to a client that is slow or gone is dropped silently.
  socket_.set(zmq::sockopt::router_mandatory, 1);
  // No handover: after another connection took its routing id, libzmq neither reads nor closes the first. Clients
  // resume with a token (client_table).
  socket_.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(settings.max_part_bytes));
  socket_.set(zmq::sockopt::sndhwm, settings.replies_under_way);
  // No ZeroMQ heartbeats: in libzmq 4.3.4 a connection that ends while it is not read, as of a client that sends faster
  // than it is served, aborts the process at the next beat. The kernel's keepalive finds dead peers.
  socket_.set(zmq::sockopt::tcp_keepalive, 1);
  socket_.set(zmq::sockopt::tcp_keepalive_idle, 30);
  socket_.set(zmq::sockopt::tcp_keepalive_intvl, 10);
  socket_.set(zmq::sockopt::tcp_keepalive_cnt, 3);
  socket_.set(zmq::sockopt::handshake_ivl, static_cast<int>(settings.handshake_timeout.count()));
  // Not 0: libzmq 4.3.4 aborts the process if a socket without linger is closed in the middle of a reply while the
  // reply's connection ends.
  socket_.set(zmq::sockopt::linger, shortest_linger_ms);
  // The exact size of a request, so that a request before HELLO still gets its ERROR.
  set_request_bytes(static_cast<std::int64_t>(settings.max_part_bytes / 2));
}

void router_socket::bind(const std::string& endpoint, const ipc_access& access) {
  if (!endpoint.starts_with(ipc)) {
    bind_to_network(endpoint);
    endpoints_.push_back(socket_.get(zmq::sockopt::last_endpoint));
    return;
  }
  // libzmq would create the file with the mode of the umask, and replace that of a daemon that still listens.
  ipc_listener listening(endpoint.substr(ipc.size()), access);
  socket_.set(zmq::sockopt::use_fd, listening.release());
  socket_.bind(endpoint);
  socket_.set(zmq::sockopt::use_fd, -1);
  files_.push_back(std::move(listening));
  endpoints_.push_back(endpoint);
}

// libzmq does not listen on host names, and on IPv6 only if told to. Then "*" is every address of both families, or of
// IPv4 alone if the kernel has no IPv6.
void router_socket::bind_to_network(const std::string& endpoint) {
  const bool is_local = endpoint.starts_with(localhost);
  const std::string address = is_local ? "tcp://127.0.0.1:" + endpoint.substr(localhost.size()) : endpoint;
  const bool six = address.starts_with("tcp://[") || address.starts_with("tcp://*:");
  socket_.set(zmq::sockopt::ipv6, six);
  try {
    socket_.bind(address);
  } catch (const zmq::error_t& error) {
    if (six || error.num() != ENODEV) {
      throw;
    }
    socket_.set(zmq::sockopt::ipv6, true);  // an interface without an IPv4 address
    socket_.bind(address);
  }
}

int router_socket::descriptor() {
  return socket_.get(zmq::sockopt::fd);
}

bool router_socket::readable() {
  return (socket_.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0;
}

router_socket::sending router_socket::send(std::string_view identity, std::span<zmq::message_t> parts) {
  try {
    // Only the routing id can be refused; then ROUTER takes all other parts.
    if (!socket_.send(zmq::const_buffer(identity.data(), identity.size()),
                      zmq::send_flags::dontwait | zmq::send_flags::sndmore)) {
      return sending::full;
    }
    for (std::size_t index = 0; index < parts.size(); ++index) {
      const auto more = index + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
      hand_over(parts[index].data());
      (void)socket_.send(parts[index], zmq::send_flags::dontwait | more);
    }
  } catch (const zmq::error_t& error) {
    if (error.num() == EHOSTUNREACH) {
      return sending::unreachable;
    }
    throw;
  }
  return sending::sent;
}

void router_socket::close(int linger_ms) noexcept {
  try {
    socket_.set(zmq::sockopt::linger, linger_ms);
  } catch (const zmq::error_t&) {
    // Already closed.
  }
  zap_handler_.stop();
  socket_.close();
  context_.close();
  files_.clear();
}

bool is_out_of_memory(const std::exception& error) noexcept {
  const auto* const of_zmq = dynamic_cast<const zmq::error_t*>(&error);
  return (of_zmq != nullptr && of_zmq->num() == ENOMEM) || dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

}  // namespace penstock
