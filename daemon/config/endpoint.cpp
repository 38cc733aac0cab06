#include "daemon/config/endpoint.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "base/quantity.hpp"

namespace penstock {
namespace {

constexpr std::string_view tcp = "tcp://";
constexpr std::string_view ipc = "ipc://";
constexpr std::string_view inproc = "inproc://";

bool is_port(std::string_view text) noexcept {
  return text == "*" || parse_number<std::uint16_t>(text);
}

bool is_bracketed(std::string_view host) noexcept {
  return host.size() > 2 && host.front() == '[' && host.back() == ']';
}

std::string_view without_brackets(std::string_view host) noexcept {
  return is_bracketed(host) ? host.substr(1, host.size() - 2) : host;
}

std::string_view without_zone(std::string_view host) noexcept {
  return host.substr(0, host.find('%'));
}

std::string fault_of_host(std::string_view host) {
  constexpr std::string_view of_interfaces = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._@";
  const std::string shown = "'" + std::string(host) + "'";
  if (host.empty()) {
    return "there is no host";
  }
  if (host.front() == '[') {
    return is_bracketed(host) && is_ipv6_address(without_brackets(host)) ? "" : shown + " is no IPv6 address";
  }
  if (host.find(':') != host.npos) {
    return is_ipv6_address(host) ? "an IPv6 address stands in brackets: [" + std::string(host) + "]"
                                 : shown + " is no host";
  }
  if (host.find_first_not_of("0123456789.") == host.npos) {
    return is_ipv4_address(host) ? "" : shown + " is no IPv4 address";
  }
  if (host == "*" || host == "localhost") {
    return "";
  }
  const bool is_interface = host.size() < IFNAMSIZ && host.find_first_not_of(of_interfaces) == host.npos;
  return is_interface ? "" : shown + " is neither an address nor the name of an interface";
}

}  // namespace

bool is_ipv4_address(std::string_view host) {
  in_addr parsed{};
  return ::inet_pton(AF_INET, std::string(host).c_str(), &parsed) == 1;
}

bool is_ipv6_address(std::string_view host) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET6, std::string(without_zone(host)).c_str(), &parsed) == 1;
}

bool is_loopback_host(std::string_view host) {
  constexpr std::string_view first = "127.";
  in6_addr six{};
  if (::inet_pton(AF_INET6, std::string(without_zone(without_brackets(host))).c_str(), &six) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
  }
  return host == "localhost" || host == "lo" || (host.starts_with(first) && is_ipv4_address(host));
}

std::string fault_of_endpoint(std::string_view text) {
  if (text.starts_with(ipc)) {
    const std::string_view path = text.substr(ipc.size());
    return path.empty() || path.front() == '@' || path.front() == '*' ? "an ipc endpoint is the path of a file" : "";
  }
  if (text.starts_with(inproc)) {
    return text.size() > inproc.size() ? "" : "there is no name";
  }
  if (!text.starts_with(tcp)) {
    return "it is of no known transport";
  }
  const std::string_view address = text.substr(tcp.size());
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos || !is_port(address.substr(colon + 1))) {
    return "it does not end with a port, from 0 to 65535 or *";
  }
  return fault_of_host(address.substr(0, colon));
}

bool is_beyond_loopback(std::string_view endpoint) {
  return endpoint.starts_with(tcp) && !is_loopback_host(endpoint.substr(tcp.size(), endpoint.rfind(':') - tcp.size()));
}

namespace {

constexpr std::string_view unix_scheme = "unix:";

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
  const std::optional<std::uint16_t> port =
      colon == text.npos ? std::nullopt : parse_number<std::uint16_t>(text.substr(colon + 1));
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
