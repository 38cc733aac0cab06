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

/// The DEALER socket to one daemon. To the daemon each of its connections is another peer. It holds no messages back
/// for a daemon that is not there: `send` is false then. Thread: the one that made it.
class dealer_socket {
 public:
  /// Begins to connect. Throws zmq::error_t when the url is none, connect_error when the keys are none.
  explicit dealer_socket(const client_options& options);
  dealer_socket(const dealer_socket&) = delete;
  dealer_socket& operator=(const dealer_socket&) = delete;
  ~dealer_socket();

  /// Leaves the daemon, once what was sent is delivered, and begins to connect to another address over a fresh socket.
  /// Throws zmq::error_t when the url is none.
  void connect_to(const std::string& url);

  /// Of the connection. The handshake failed: because one side asks for keys and the other does not; because the daemon
  /// does not list this client's key; or it was broken off, as by a daemon that has another key.
  enum class change { none, connected, disconnected, unlike, unlisted, broken_off };
  /// What has become of the connection since the last call that answered `none`.
  [[nodiscard]] change next_change();

  /// Sends one message of these parts; false when there is no connection. The parts are emptied as they are sent.
  [[nodiscard]] bool send(std::span<zmq::message_t> parts);
  [[nodiscard]] bool has_keys() const noexcept { return keys_.has_value(); }
  /// Takes one whole message into `parts`; false when there is none.
  [[nodiscard]] bool receive(std::vector<zmq::message_t>& parts);
  /// Waits until a message, a change of the connection or one of two descriptors is ready; negative = without end, and
  /// as a descriptor none. Whether `second` is ready.
  bool wait(int first, int second, std::chrono::milliseconds at_most);

 private:
  void watch();
  void look_away() noexcept;

  client_options options_;
  std::optional<curve_keys> keys_;
  int connections_ = 0;
  zmq::context_t context_;
  zmq::socket_t dealer_;
  zmq::socket_t events_;
};

}  // namespace penstock::link
