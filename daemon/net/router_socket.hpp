#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "base/unix_listener.hpp"
#include "daemon/net/keys.hpp"
#include "daemon/net/zap_handler.hpp"

namespace penstock {

/// Endpoints and limits of a router socket.
struct router_settings {
  std::vector<std::string> listen;
  /// A larger part ends its connection. (max_request_bytes is below it; in between a request gets an ERROR.)
  std::size_t max_part_bytes = 0;
  /// Replies that ZeroMQ holds for one client. More wait in reply_sender's bounded queue.
  int replies_under_way = 1000;
  /// A connection whose handshake takes longer is closed.
  std::chrono::milliseconds handshake_timeout{5000};
  /// Of ipc endpoints.
  ipc_access ipc{};
  /// Not nullptr: every connection, ipc included, must be encrypted with an authorised key. nullptr: anybody may
  /// connect. Must outlive the socket.
  const keyring* keys = nullptr;
  /// ZeroMQ's I/O threads. Each connection is served by one of them.
  int io_threads = 1;
};

/// The ROUTER socket of a shard, bound. message_reader receives from it, reply_sender sends to it. Thread: the shard,
/// unless a function says otherwise.
class router_socket {
 public:
  /// Throws std::runtime_error; what() names the endpoint that could not be bound.
  explicit router_socket(const router_settings& settings);

  /// Where sources of this process connect, in the socket's context. No keys are needed there.
  static constexpr const char* inner_endpoint = "inproc://penstock.sources";

  [[nodiscard]] zmq::socket_t& get() noexcept { return socket_; }
  /// Any thread. `close` waits for all sockets of it.
  [[nodiscard]] zmq::context_t& context() noexcept { return context_; }
  /// ZMQ_FD, which is edge-triggered: call `readable` after every burst of sends or receives, and before waiting on it.
  [[nodiscard]] int descriptor();
  [[nodiscard]] bool readable();
  /// The endpoints as bound; a port of 0 or * is replaced by the real one.
  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept { return endpoints_; }
  enum class sending { sent, full, unreachable };
  /// Sends these parts to the client of that routing id without waiting. The parts are consumed only if they are sent.
  [[nodiscard]] sending send(std::string_view identity, std::span<zmq::message_t> parts);
  /// Counts of handshakes. Any thread.
  [[nodiscard]] handshake_report handshakes() const noexcept { return zap_handler_.account().read(); }
  /// As zap_handler::rounds. Any thread.
  [[nodiscard]] std::uint64_t zap_rounds() const noexcept { return zap_handler_.rounds(); }
  /// Closes the socket and ends the context's threads. Afterwards ZeroMQ holds no message.
  void close(int linger_ms) noexcept;

 private:
  void limit(const router_settings& settings);
  void bind_to_network(const std::string& endpoint);
  void bind(const std::string& endpoint, const ipc_access& access);

  zmq::context_t context_;
  std::list<ipc_listener> files_;
  zmq::socket_t socket_;
  zap_handler zap_handler_;
  std::vector<std::string> endpoints_;
};

/// Whether the exception means that an allocation failed, in libzmq or elsewhere.
[[nodiscard]] bool is_out_of_memory(const std::exception& error) noexcept;

}  // namespace penstock
