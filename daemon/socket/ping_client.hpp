#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>

#include <zmq.hpp>

#include "daemon/security/keyring.hpp"

namespace penstock {

/// A connection that sends nothing but PING, which needs no HELLO. One thread uses it.
class ping_connection {
 public:
  /// `context` must live longer. With `keys` it connects as the daemon's own client. Throws zmq::error_t.
  ping_connection(zmq::context_t& context, const std::string& endpoint, const keyring* keys);

  /// Sends one, unless there is no connection yet or some are under way.
  void ping(std::uint64_t request_id);
  /// Whether a PONG has come since it was last asked.
  [[nodiscard]] bool answered();

 private:
  zmq::socket_t socket_;
};

/// Those of one process to itself.
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
