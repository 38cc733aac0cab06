#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "daemon/security/gatekeeper.hpp"
#include "daemon/security/handshake_account.hpp"
#include "daemon/security/keyring.hpp"
#include "daemon/socket/ipc_listener.hpp"

namespace penstock {

/// What the socket is bound to and what it lets in.
struct router_settings {
  std::vector<std::string> listen;
  /// A larger part ends its connection; what is under it but too large for a request gets an ERROR.
  std::size_t max_part_bytes = 0;
  /// Replies that ZeroMQ holds for one client; those beyond wait in the bounded queue of egress.
  int replies_under_way = 1000;
  /// A connection that has not finished its handshake after this long is closed.
  std::chrono::milliseconds handshake_timeout{5000};
  /// Of ipc endpoints.
  ipc_access ipc{};
  /// With keys every connection, over ipc too, must be encrypted and its key authorised; without, all are let in. They
  /// must live longer than the socket.
  const keyring* keys = nullptr;
  /// ZeroMQ's. Each connection is served by one of them.
  int io_threads = 1;
};

/// The ROUTER socket of a shard, bound. Ingress receives from it, egress sends to it: both on the shard's thread.
class router_socket {
 public:
  /// Throws std::runtime_error; what() names the endpoint that could not be bound.
  explicit router_socket(const router_settings& settings);

  [[nodiscard]] zmq::socket_t& get() noexcept { return socket_; }
  /// ZMQ_FD: edge-triggered. Look at `readable` after every burst of sends or receives and before waiting on it.
  [[nodiscard]] int descriptor();
  [[nodiscard]] bool readable();
  /// The endpoints as bound, with ports that were given as 0 or * filled in.
  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept { return endpoints_; }
  /// What became of the connections. Threads: any.
  [[nodiscard]] handshake_report handshakes() const noexcept { return gatekeeper_.account().read(); }
  /// Of its gatekeeper. Threads: any.
  [[nodiscard]] std::uint64_t gatekeeper_rounds() const noexcept { return gatekeeper_.rounds(); }
  /// Closes the socket and ends the context's threads: every message that was handed over has been let go of.
  void close(int linger_ms) noexcept;

 private:
  void limit(const router_settings& settings);
  void bind_to_network(const std::string& endpoint);
  void bind(const std::string& endpoint, const ipc_access& access);

  zmq::context_t context_;
  std::list<ipc_listener> files_;
  zmq::socket_t socket_;
  gatekeeper gatekeeper_;
  std::vector<std::string> endpoints_;
};

/// Whether there was no memory for something, in libzmq or elsewhere.
[[nodiscard]] bool is_want_of_memory(const std::exception& error) noexcept;

}  // namespace penstock
