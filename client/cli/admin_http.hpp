#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace penstock::cli {

/// The address of a daemon's admin HTTP: TCP, or a Unix socket when `path` is not empty.
struct admin_address {
  std::string host;
  std::string port;
  std::string path{};

  bool operator==(const admin_address&) const = default;
};

/// "127.0.0.1:7680", "[::1]:7680", "localhost:7680", with or without "http://" before it, or "unix:/run/admin.sock".
/// nullopt for anything else.
[[nodiscard]] std::optional<admin_address> parse_admin_address(std::string_view text);

/// The admin HTTP did not answer: no listener, a timeout, or not HTTP.
class admin_unreachable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct http_answer {
  unsigned status = 0;
  std::string body;
};

/// Sends one GET over a connection of its own. Blocks for at most `timeout`, name resolution aside. Throws
/// admin_unreachable.
[[nodiscard]] http_answer admin_get(const admin_address& address, const std::string& target,
                                    std::chrono::nanoseconds timeout);
/// Sends a POST without a body, with the header that the daemon requires of a change.
[[nodiscard]] http_answer admin_post(const admin_address& address, const std::string& target,
                                     std::chrono::nanoseconds timeout);

/// The default of penstockd's configuration.
[[nodiscard]] admin_address default_admin_address();
/// The text form that parse_admin_address reads.
[[nodiscard]] std::string text_of(const admin_address& address);
/// Adds --admin, with the environment variable PENSTOCK_ADMIN. `address` must outlive `app`.
CLI::Option* add_admin_option(CLI::App& app, std::optional<admin_address>& address);

/// Chooses among the admin addresses in a STATUS the one for a client connected to `url`. Throws std::runtime_error.
[[nodiscard]] admin_address choose_admin_address(const std::string& status, const std::string& url);

}  // namespace penstock::cli
