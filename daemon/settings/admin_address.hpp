#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

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
