#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace penstock::cli {

/// Where a daemon's admin HTTP listens: a TCP port, or a Unix socket when `path` is not empty.
struct admin_address {
  std::string host;
  std::string port;
  std::string path{};

  bool operator==(const admin_address&) const = default;
};

/// "127.0.0.1:7680", "[::1]:7680", "localhost:7680", with or without "http://" before it, or "unix:/run/admin.sock".
/// nullopt when it is none of these.
[[nodiscard]] std::optional<admin_address> parse_admin_address(std::string_view text);

/// The daemon's admin HTTP did not answer: nothing listens there, it took too long, or it speaks something else.
class admin_unreachable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct http_answer {
  unsigned status = 0;
  std::string body;
};

/// One request, one answer, one connection. Blocks for at most `timeout`, the look-up of a host's name aside. Throws
/// admin_unreachable.
[[nodiscard]] http_answer admin_get(const admin_address& from, const std::string& target,
                                    std::chrono::nanoseconds timeout);
/// A POST without a body, with the header that the daemon asks of what changes it.
[[nodiscard]] http_answer admin_post(const admin_address& to, const std::string& target,
                                     std::chrono::nanoseconds timeout);

}  // namespace penstock::cli
