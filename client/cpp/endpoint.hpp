#pragma once

#include <cstdint>
#include <string>

#include "client/cpp/credit_gate.hpp"

namespace penstock::link {

/// Where a daemon is.
struct endpoint {
  std::string transport;
  std::string host;  ///< of tcp
  std::uint16_t port = 0;
  std::string path;  ///< of ipc; "@" and a name for an abstract socket
};

/// Throws connect_error, which says what is wrong, where no daemon can be.
[[nodiscard]] endpoint parse_endpoint(const std::string& url);
/// The url with 127.0.0.1 for the host "localhost", as in the daemon: a system without /etc/hosts can't resolve it.
[[nodiscard]] std::string resolve_localhost(const std::string& url);
/// What to say of a url with a transport that ZeroMQ does not have.
[[nodiscard]] std::string unsupported_transport(const std::string& url);

/// What is at an endpoint.
struct endpoint_finding {
  std::string text;       ///< what happened, and what to try; "" when nothing is wrong as far as one can see
  bool for_good = false;  ///< trying again can't help
  bool absent = false;    ///< nobody listens there, or nobody knows where that is
  bool shut = false;      ///< a daemon is there, and does not let this client in
};

/// Connects there, says the beginning of a greeting, and sees what comes; until `deadline` at most, but for the time
/// that a name server takes. For when no daemon answers: a daemon counts it as a handshake that did not end.
[[nodiscard]] endpoint_finding look_at(const std::string& url, bool has_keys, time_point deadline);

}  // namespace penstock::link
