#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// Why the daemon can't listen on it; "" when it can: "tcp://HOST:PORT" with a port of 0 to 65535 or "*" (any free
/// one), "ipc://PATH", "inproc://NAME". HOST is an IPv4 address, an IPv6 address in brackets, "localhost", the name of
/// an interface, or "*" for every address of either kind. An ipc endpoint is a file, so that it has a mode: not an
/// abstract name ("@...") nor "*".
[[nodiscard]] std::string fault_of_endpoint(std::string_view text);

/// Whether other machines can reach it: TCP on anything but loopback.
[[nodiscard]] bool is_beyond_loopback(std::string_view endpoint);

/// Whether only this machine can reach that host: 127.0.0.0/8, ::1 (with or without brackets), "localhost", "lo".
[[nodiscard]] bool is_loopback_host(std::string_view host);

/// Four numbers from 0 to 255.
[[nodiscard]] bool is_ipv4_address(std::string_view host);
/// Without brackets; a zone ("fe80::1%eth0") may follow.
[[nodiscard]] bool is_ipv6_address(std::string_view host);

/// Where the admin endpoint listens: a TCP address and port, or a Unix socket where `path` is not empty.
struct admin_address {
  std::string host{};  ///< numeric, IPv4 or IPv6
  std::uint16_t port = 0;
  std::string path{};

  /// Nobody from beyond this machine can reach it.
  [[nodiscard]] bool is_local() const;
};

/// "127.0.0.1:7680", "[::1]:7680", "localhost:7680" (which is 127.0.0.1), "unix:/run/penstock/admin.sock". Port 0 is
/// any free one. nullopt when it is none of these.
[[nodiscard]] std::optional<admin_address> parse_admin_address(std::string_view text);

}  // namespace penstock
