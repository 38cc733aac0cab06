#include "daemon/settings/admin_address.hpp"

#include <charconv>

#include <sys/un.h>

#include "daemon/settings/endpoint.hpp"

namespace penstock {
namespace {

constexpr std::string_view unix_scheme = "unix:";

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
  return !path.empty() || is_loopback_host(host);
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
  if (host == "localhost" || is_ipv4_address(host)) {
    return admin_address{.host = host == "localhost" ? "127.0.0.1" : host, .port = *port};
  }
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string inner = bracketed ? host.substr(1, host.size() - 2) : "";
  return is_ipv6_address(inner) && inner.find('%') == inner.npos
             ? std::optional(admin_address{.host = inner, .port = *port})
             : std::nullopt;
}

}  // namespace penstock
