#pragma once

#include <string_view>

namespace penstock {

/// Whether the daemon can listen on it: "tcp://HOST:PORT" with a port of 0 to 65535 or "*" (any free one),
/// "ipc://PATH", "inproc://NAME". An ipc endpoint is a file, so that it has a mode: not an abstract name ("@...") nor
/// "*".
[[nodiscard]] bool is_endpoint(std::string_view text) noexcept;

/// Whether other machines can reach it: TCP on anything but 127.0.0.0/8, [::1] or the interface "lo".
[[nodiscard]] bool is_beyond_loopback(std::string_view endpoint) noexcept;

}  // namespace penstock
