#pragma once

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

}  // namespace penstock
