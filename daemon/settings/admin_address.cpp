#include "daemon/settings/admin_address.hpp"

#include <charconv>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace penstock {
namespace {

constexpr std::string_view unix_scheme = "unix:";

bool is_v4(const std::string& host) {
  in_addr parsed{};
  return ::inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

bool is_v6(const std::string& host) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

std::optional<std::uint16_t> parse_port(std::string_view digits) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(port) : std::nullopt;
}

/// Absolute, and short enough for what the system calls a socket's name.
std::optional<admin_address> parse_path(std::string_view path) {
  constexpr std::size_t most = sizeof(sockaddr_un::sun_path) - 1;
  if (!path.starts_with('/') || path.size() > most || path.find('\0') != path.npos) {
    return std::nullopt;
  }
  return admin_address{.path = std::string(path)};
}

}  // namespace

bool admin_address::is_local() const {
  in6_addr six{};
  if (::inet_pton(AF_INET6, host.c_str(), &six) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&six);
  }
  return !path.empty() || host.starts_with("127.");
}

std::optional<admin_address> parse_admin_address(std::string_view text) {
  if (text.starts_with(unix_scheme)) {
    return parse_path(text.substr(unix_scheme.size()));
  }
  const std::size_t colon = text.rfind(':');
  const std::optional<std::uint16_t> port = colon == text.npos ? std::nullopt : parse_port(text.substr(colon + 1));
  if (!port) {
    return std::nullopt;
  }
  const std::string host(text.substr(0, colon));
  if (host == "localhost" || is_v4(host)) {
    return admin_address{.host = host == "localhost" ? "127.0.0.1" : host, .port = *port};
  }
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string inner = bracketed ? host.substr(1, host.size() - 2) : "";
  return is_v6(inner) ? std::optional(admin_address{.host = inner, .port = *port}) : std::nullopt;
}

}  // namespace penstock
