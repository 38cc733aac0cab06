#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <penstock/client_options.hpp>
#include <zmq.hpp>

#include "client/cpp/curve_keys.hpp"

namespace penstock::link {

/// The DEALER socket to one daemon. After a reconnection the daemon sees another peer. No messages queue up for an
/// absent daemon: `send` returns false. Thread: the one that made it.
class dealer_socket {
 public:
  /// Begins to connect. Throws zmq::error_t or connect_error for an invalid URL, connect_error for invalid keys.
  explicit dealer_socket(const client_options& options);
  dealer_socket(const dealer_socket&) = delete;
  dealer_socket& operator=(const dealer_socket&) = delete;
  ~dealer_socket();

  /// Begins to connect to another address with a new socket; the old one first delivers what was sent. Throws
  /// zmq::error_t for an invalid URL.
  void connect_to(const std::string& url);

  /// Changes of the connection. The last three are failed handshakes: only one side uses keys; the daemon does not list
  /// this client's key; the peer closed the connection, for example because its key is another one.
  enum class change { none, connected, disconnected, mechanism_mismatch, unauthorized, handshake_closed };
  /// The next change; `none` when there is no further one.
  [[nodiscard]] change next_change();

  /// Sends one multipart message. False when there is no connection. The parts are moved from.
  [[nodiscard]] bool send(std::span<zmq::message_t> parts);
  [[nodiscard]] bool has_keys() const noexcept { return keys_.has_value(); }
  /// Receives one whole message into `parts`. False when there is none.
  [[nodiscard]] bool receive(std::vector<zmq::message_t>& parts);
  /// Waits for a message, a change of the connection or a readable descriptor, at most `at_most` (negative: no limit).
  /// `second` may be -1 for none. True when `second` is readable.
  bool wait(int first, int second, std::chrono::milliseconds at_most);

 private:
  void start_monitor();
  void stop_monitor() noexcept;

  [[nodiscard]] zmq::context_t& context() noexcept { return lent_ != nullptr ? *lent_ : *context_; }

  client_options options_;
  std::optional<curve_keys> keys_;
  int connections_ = 0;
  // Within the process there is no handshake, and no event: the connection stands as soon as it is made.
  bool within_process_ = false;
  bool connection_untold_ = false;
  zmq::context_t* lent_ = nullptr;         // of options_.zmq_context
  std::optional<zmq::context_t> context_;  // its own, where none is lent
  zmq::socket_t dealer_;
  zmq::socket_t events_;  // none within the process
};

}  // namespace penstock::link
