#include "daemon/doctor/endpoint_probe.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>

#include <netdb.h>
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

endpoint_facts probe_tcp(const std::string& endpoint, std::string host, const std::string& port, const greeting& by) {
  if (port == "*" || port == "0") {
    return facts(endpoint, endpoint_state::free);
  }
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo wanted{};
  wanted.ai_flags = AI_PASSIVE;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_family = host == "*" ? AF_INET : AF_UNSPEC;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host == "*" ? nullptr : host.c_str(), port.c_str(), &wanted, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  if (failed != 0) {
    return facts(endpoint, endpoint_state::refused, ::gai_strerror(failed));
  }
  socket_address there;
  there.length = found->ai_addrlen;
  std::memcpy(&there.bytes, found->ai_addr, found->ai_addrlen);
  const own_socket mine(found->ai_family);
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
