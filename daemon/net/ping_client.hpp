#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>

#include <zmq.hpp>

#include "daemon/net/keys.hpp"

namespace penstock {

/// A connection that sends only PING, and so needs no HELLO. Thread: the one that made it.
class ping_connection {
 public:
  /// `context` must outlive it. With `keys` it connects with the daemon's own key. Throws zmq::error_t.
  ping_connection(zmq::context_t& context, const std::string& endpoint, const keyring* keys);

  /// Sends a PING, unless there is no connection yet or earlier PINGs are not answered.
  void ping(std::uint64_t request_id);
  /// Whether a PONG has come since the last call.
  [[nodiscard]] bool answered();

 private:
  zmq::socket_t socket_;
};

/// The connections of one process to itself.
class ping_client {
 public:
  ping_client();

  /// Throws std::runtime_error.
  ping_connection& connect(const std::string& endpoint, const keyring* keys);

 private:
  zmq::context_t context_{1};
  std::list<ping_connection> connections_;
};

}  // namespace penstock
