#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/credit_window.hpp"
#include "proto/control.hpp"

namespace penstock::link {

/// The address of a daemon.
struct endpoint {
  std::string transport;
  std::string host;  ///< of tcp
  std::uint16_t port = 0;
  std::string path;  ///< of ipc; "@" and a name for an abstract socket
};

/// Throws connect_error, with the reason, for an invalid URL.
[[nodiscard]] endpoint parse_endpoint(const std::string& url);
/// Replaces the host "localhost" by 127.0.0.1, as the daemon does: systems without /etc/hosts can't resolve it.
[[nodiscard]] std::string resolve_localhost(const std::string& url);
/// The error text for a URL whose transport ZeroMQ does not support.
[[nodiscard]] std::string unsupported_transport(const std::string& url);

/// The result of inspect_endpoint.
struct endpoint_report {
  std::string text;             ///< what happened and what to try; "" when nothing wrong was found
  bool final = false;           ///< a retry can't help
  bool absent = false;          ///< nobody listens there, or the name can't be resolved
  bool client_refused = false;  ///< a daemon is there but refuses this client's security mechanism
};

/// Finds out why no daemon answers: connects, sends the start of a ZMTP greeting and reads the reply. Takes until
/// `deadline` at most, name resolution aside. A daemon counts it as an unfinished handshake.
[[nodiscard]] endpoint_report inspect_endpoint(const std::string& url, bool has_keys, time_point deadline);

/// The endpoint of the shard that `welcome` assigns to a client connected to `url`. nullopt when that is the answering
/// shard, or when the shard has no endpoint that this client can use.
[[nodiscard]] std::optional<std::string> better_endpoint(const wire::welcome& welcome, std::string_view url);

/// The endpoint of each shard for a client connected to `url`; "" for a shard without a usable endpoint. Empty when the
/// daemon names no shards.
[[nodiscard]] std::vector<std::string> endpoints_of_all(const wire::welcome& welcome, std::string_view url);

}  // namespace penstock::link
