#include "daemon/doctor/endpoint_probe.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/settings/admin_address.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int patience_ms = 500;

class own_socket {
 public:
  explicit own_socket(int family) : descriptor_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  own_socket(const own_socket&) = delete;
  own_socket& operator=(const own_socket&) = delete;
  ~own_socket() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

struct socket_address {
  sockaddr_storage bytes{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&bytes); }
};

/// What a daemon answers to `question`, when it is asked, begins like this.
struct greeting {
  std::string_view question;
  std::string_view answer;
};
// ZeroMQ's side sends the first byte of its signature by itself.
constexpr greeting of_data{"", "\xFF"};
constexpr greeting of_admin{"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 "};

bool answers(const socket_address& there, const greeting& wanted) {
  const own_socket mine(there.bytes.ss_family);
  if (::connect(mine.get(), there.get(), there.length) != 0 ||
      ::send(mine.get(), wanted.question.data(), wanted.question.size(), MSG_NOSIGNAL) < 0) {
    return false;
  }
  std::string got;
  pollfd readable{.fd = mine.get(), .events = POLLIN, .revents = 0};
  while (got.size() < wanted.answer.size() && ::poll(&readable, 1, patience_ms) == 1) {
    std::array<char, 64> part{};
    const ssize_t read = ::recv(mine.get(), part.data(), part.size(), 0);
    if (read <= 0) {
      break;
    }
    got.append(part.data(), static_cast<std::size_t>(read));
  }
  return got.starts_with(wanted.answer);
}

endpoint_facts facts(const std::string& endpoint, endpoint_state state, std::string detail = "") {
  return {endpoint, state, std::move(detail)};
}

bool has_ipv6() {
  return own_socket(AF_INET6).get() >= 0;
}

/// Of an interface: its first address, IPv4 where it has one.
std::optional<socket_address> address_of_interface(const std::string& name, std::uint16_t port) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(found, ::freeifaddrs);
  std::optional<socket_address> made;
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    const int family = each->ifa_addr == nullptr ? AF_UNSPEC : each->ifa_addr->sa_family;
    const bool is_better = family == AF_INET || (family == AF_INET6 && !made);
    if (name != each->ifa_name || !is_better) {
      continue;
    }
    made.emplace();
    made->length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&made->bytes, each->ifa_addr, made->length);
    auto& number = family == AF_INET ? reinterpret_cast<sockaddr_in&>(made->bytes).sin_port
                                     : reinterpret_cast<sockaddr_in6&>(made->bytes).sin6_port;
    number = htons(port);
    if (family == AF_INET) {
      break;
    }
  }
  return made;
}

/// As the daemon takes it: an address, "*", "localhost" or the name of an interface.
std::optional<socket_address> address_of(std::string host, const std::string& port) {
  if (host == "*") {
    host = has_ipv6() ? "::" : "0.0.0.0";
  } else if (host == "localhost") {
    host = "127.0.0.1";
  } else if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo wanted{};
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) {
    std::uint16_t number = 0;
    std::from_chars(port.data(), port.data() + port.size(), number);
    return address_of_interface(host, number);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  socket_address made;
  made.length = found->ai_addrlen;
  std::memcpy(&made.bytes, found->ai_addr, found->ai_addrlen);
  return made;
}

endpoint_facts probe_tcp(const std::string& endpoint, const std::string& host, const std::string& port,
                         const greeting& by) {
  if (port == "*" || port == "0") {
    return facts(endpoint, endpoint_state::free);
  }
  const std::optional<socket_address> known = address_of(host, port);
  if (!known) {
    return facts(endpoint, endpoint_state::refused, "this machine has no interface '" + host + "' with an address");
  }
  const socket_address& there = *known;
  const own_socket mine(there.bytes.ss_family);
  if (mine.get() < 0) {
    return facts(endpoint, endpoint_state::refused, std::strerror(errno));
  }
  const int yes = 1;
  ::setsockopt(mine.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(mine.get(), there.get(), there.length) == 0) {
    return facts(endpoint, endpoint_state::free);
  }
  if (errno != EADDRINUSE) {
    return facts(endpoint, endpoint_state::refused, std::strerror(errno));
  }
  return facts(endpoint, answers(there, by) ? endpoint_state::served : endpoint_state::taken);
}

endpoint_facts probe_file(const std::string& endpoint, const fs::path& path, const greeting& by) {
  std::error_code unreadable;
  const fs::file_status status = fs::symlink_status(path, unreadable);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  socket_address there;
  auto& name = reinterpret_cast<sockaddr_un&>(there.bytes);
  if (path.string().size() >= sizeof name.sun_path) {
    return facts(endpoint, endpoint_state::refused, "the path is too long for a socket");
  }
  name.sun_family = AF_UNIX;
  std::strcpy(name.sun_path, path.c_str());
  there.length = sizeof name;
  if (fs::exists(status)) {
    if (!fs::is_socket(status)) {
      return facts(endpoint, endpoint_state::refused, "there is a file that is no socket");
    }
    const own_socket mine(AF_UNIX);
    if (::connect(mine.get(), there.get(), there.length) == 0) {
      return facts(endpoint, answers(there, by) ? endpoint_state::served : endpoint_state::taken);
    }
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return facts(endpoint, endpoint_state::refused, folder.string() + ": " + std::strerror(errno));
  }
  return facts(endpoint, endpoint_state::free);
}

}  // namespace

endpoint_facts probe_data_endpoint(const std::string& endpoint) {
  constexpr std::string_view tcp = "tcp://";
  constexpr std::string_view ipc = "ipc://";
  if (endpoint.starts_with(ipc)) {
    return probe_file(endpoint, endpoint.substr(ipc.size()), of_data);
  }
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(tcp) || colon < tcp.size()) {
    return facts(endpoint, endpoint_state::free);
  }
  return probe_tcp(endpoint, endpoint.substr(tcp.size(), colon - tcp.size()), endpoint.substr(colon + 1), of_data);
}

endpoint_facts probe_admin_endpoint(const std::string& address) {
  const auto parsed = parse_admin_address(address);
  const std::string shown = "admin " + address;
  if (!parsed) {
    return facts(shown, endpoint_state::refused, "no address");
  }
  return parsed->path.empty() ? probe_tcp(shown, parsed->host, std::to_string(parsed->port), of_admin)
                              : probe_file(shown, parsed->path, of_admin);
}

}  // namespace penstock
