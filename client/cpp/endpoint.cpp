#include "client/cpp/endpoint.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <netdb.h>
#include <penstock/request_error.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/descriptors.hpp"
#include "base/quantity.hpp"

namespace penstock::link {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view address_forms =
    "an address is tcp://HOST:PORT or ipc://PATH, as in tcp://127.0.0.1:7600";  // that penstockd supports
constexpr const char* loopback_name = "localhost";
constexpr const char* loopback_number = "127.0.0.1";
constexpr std::size_t longest_path = sizeof(sockaddr_un{}.sun_path) - 1;
constexpr std::chrono::nanoseconds longest_attempt = 1s;

/// The start of a ZMTP 3 greeting: signature and major version.
constexpr std::array<unsigned char, 11> greeting_begin{0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0x7F, 3};
constexpr std::size_t greeting_bytes = 64;
constexpr std::size_t mechanism_at = 12;
constexpr std::size_t mechanism_bytes = 20;

[[noreturn]] void refuse_url(const std::string& url, const std::string& reason) {
  throw connect_error("\"" + url + "\" " + reason);
}

bool looks_like_host_and_port(std::string_view text) {
  const auto colon = text.rfind(':');
  return colon != std::string_view::npos && colon > 0 && colon + 1 < text.size() &&
         text.find_first_not_of("0123456789", colon + 1) == std::string_view::npos &&
         text.find_first_of("/ ") == std::string_view::npos;
}

std::uint16_t port_in(const std::string& url, std::string_view text) {
  const std::uint16_t port = parse_number<std::uint16_t>(text).value_or(0);
  if (port == 0) {
    refuse_url(url, "has the port \"" + std::string(text) +
                        "\"; a port is a number from 1 to 65535, and a daemon's is 7600 where its configuration says "
                        "nothing else");
  }
  return port;
}

struct place {
  sockaddr_storage address{};
  socklen_t length = 0;
};

place place_of_path(const std::string& path) {
  place found;
  auto& address = reinterpret_cast<sockaddr_un&>(found.address);
  address.sun_family = AF_UNIX;
  const std::size_t bytes = std::min(path.size(), longest_path);
  std::memcpy(address.sun_path, path.data(), bytes);
  found.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + bytes + 1);
  if (path.starts_with('@')) {
    address.sun_path[0] = '\0';
    --found.length;
  }
  return found;
}

/// The addresses of a name; `failure` is getaddrinfo's.
std::vector<place> places_of_host(const endpoint& address, int& failure) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const std::string host = address.host == loopback_name ? loopback_number : address.host;
  failure = ::getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &wanted, &first);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{failure == 0 ? first : nullptr, &::freeaddrinfo};
  std::vector<place> found;
  for (const addrinfo* each = owner.get(); each != nullptr; each = each->ai_next) {
    place next;
    std::memcpy(&next.address, each->ai_addr, each->ai_addrlen);
    next.length = each->ai_addrlen;
    found.push_back(next);
  }
  return found;
}

/// Waits for the events until the deadline. True when they came.
bool wait_for(int descriptor, short events, time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd item{descriptor, events, 0};
    const int ready = ::poll(&item, 1, static_cast<int>(std::max(left, 0ms).count()));
    if (ready >= 0 || errno != EINTR) {
      return ready > 0;
    }
  }
}

/// 0, or the errno of the failed connect.
int connect_within(int descriptor, const place& target, time_point deadline) {
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&target.address), target.length) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  if (!wait_for(descriptor, POLLOUT, deadline)) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t bytes = sizeof error;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

endpoint_report connect_failure_report(const endpoint& address, int error) {
  const std::string cause = std::strerror(error);
  if (address.transport == "ipc") {
    if (error == EACCES || error == EPERM) {
      return {.text =
                  "this user may not connect to the socket there (permission denied): see ipc_mode and ipc_group of "
                  "the daemon's configuration",
              .final = true};
    }
    return {.text = (error == ENOENT         ? "there is no such socket"
                     : error == ECONNREFUSED ? "the daemon that made the socket is gone"
                                             : cause) +
                    ": is penstockd running, and does its configuration listen there?",
            .absent = true};
  }
  if (error == ECONNREFUSED) {
    return {.text =
                "the connection is refused, so nobody listens there: is penstockd running, and does its "
                "configuration listen at this address and port?",
            .absent = true};
  }
  if (error == ETIMEDOUT) {
    return {.text =
                "the machine does not answer: is it on, is the address right, does a firewall drop the connection?"};
  }
  return {.text = "the machine can't be reached (" + cause + "): is the address right?"};
}

/// The peer's greeting, perhaps incomplete; nullopt when the peer stays silent until the deadline.
std::optional<std::string> receive_greeting(int descriptor, time_point deadline) {
  std::string heard;
  if (::send(descriptor, greeting_begin.data(), greeting_begin.size(), MSG_NOSIGNAL) < 0) {
    return heard;
  }
  std::array<char, greeting_bytes> piece{};
  while (heard.size() < greeting_bytes && (heard.empty() || heard.front() == '\xFF')) {
    if (!wait_for(descriptor, POLLIN, deadline)) {
      return std::nullopt;
    }
    const auto taken = ::recv(descriptor, piece.data(), greeting_bytes - heard.size(), 0);
    if (taken <= 0) {
      break;
    }
    heard.append(piece.data(), static_cast<std::size_t>(taken));
  }
  return heard;
}

endpoint_report read_greeting(int descriptor, bool has_keys, time_point deadline) {
  const auto heard = receive_greeting(descriptor, deadline);
  if (!heard) {
    return {.text = "a connection stands, but nothing is said over it: is that penstockd's data port?"};
  }
  if (!heard->empty() && heard->front() != '\xFF') {
    return {.text =
                "what listens there is no ZeroMQ: a daemon's data port is 7600 where its configuration says nothing "
                "else, and 7680 its admin HTTP",
            .final = true};
  }
  if (heard->size() < greeting_bytes) {
    return {.text = "the connection is closed at once: is a proxy there whose daemon is not running?"};
  }
  const bool asks = heard->substr(mechanism_at, mechanism_bytes).starts_with("CURVE");
  if (asks && !has_keys) {
    return {.text = "it asks for keys: give its public key and a key file of your own",
            .final = true,
            .client_refused = true};
  }
  if (has_keys && !asks) {
    return {.text = "it asks for no keys: leave the server key and the key file out",
            .final = true,
            .client_refused = true};
  }
  return {};
}

}  // namespace

std::string resolve_localhost(const std::string& url) {
  const std::string begin = std::string("tcp://") + loopback_name + ":";
  return url.starts_with(begin) ? std::string("tcp://") + loopback_number + ":" + url.substr(begin.size()) : url;
}

std::string unsupported_transport(const std::string& url) {
  return "\"" + url + "\" can't be a daemon's: there is no transport \"" + url.substr(0, url.find("://")) + "\"; " +
         std::string(address_forms);
}

endpoint parse_endpoint(const std::string& url) {
  const auto separator = url.find("://");
  if (separator == std::string::npos) {
    refuse_url(url, "is no address: " + std::string(address_forms) +
                        (looks_like_host_and_port(url) ? "; did you mean tcp://" + url + "?" : ""));
  }
  endpoint found{.transport = url.substr(0, separator), .host = {}, .path = {}};
  std::string_view rest{url};
  rest.remove_prefix(separator + 3);
  if (found.transport == "ipc") {
    if (rest.empty()) {
      refuse_url(url, "names no socket: " + std::string(address_forms));
    }
    if (rest.size() > longest_path) {
      refuse_url(url, "has a path of " + std::to_string(rest.size()) + " bytes; a Unix socket's has at most " +
                          std::to_string(longest_path));
    }
    found.path = rest;
    return found;
  }
  if (found.transport != "tcp") {
    return found;  // ZeroMQ rejects an unknown transport
  }
  rest.remove_prefix(rest.find(';') == std::string_view::npos ? 0 : rest.find(';') + 1);  // the source address
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || (rest.starts_with('[') && rest[colon - 1] != ']')) {
    refuse_url(url, "has no port: " + std::string(address_forms));
  }
  found.port = port_in(url, rest.substr(colon + 1));
  std::string_view host = rest.substr(0, colon);
  if (host.empty()) {
    refuse_url(url, "has no host: " + std::string(address_forms));
  }
  if (host == "*") {
    refuse_url(url, "is where a daemon listens; a client needs the name or the address of its machine");
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  found.host = host;
  return found;
}

endpoint_report inspect_endpoint(const std::string& url, bool has_keys, time_point deadline) {
  const endpoint address = parse_endpoint(url);
  if (address.transport != "tcp" && address.transport != "ipc") {
    return {};
  }
  int failure = 0;
  const auto places =
      address.transport == "tcp" ? places_of_host(address, failure) : std::vector{place_of_path(address.path)};
  if (failure != 0) {
    return {.text = "the name \"" + address.host + "\" can't be resolved (" + ::gai_strerror(failure) +
                    "): is it spelled right, and does this machine's name server know it?",
            .final = failure != EAI_AGAIN,
            .absent = true};
  }
  endpoint_report found;
  for (const place& each : places) {
    const file_descriptor probe{::socket(each.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    const time_point now = std::chrono::steady_clock::now();
    const time_point until = std::clamp(deadline, now + 50ms, now + longest_attempt);
    const int error = probe ? connect_within(probe.number(), each, until) : errno;
    if (error == 0) {
      return read_greeting(probe.number(), has_keys, until);
    }
    found = connect_failure_report(address, error);
  }
  return found;
}

namespace {

/// "tcp://HOST:PORT" in its three parts; other transports have no host.
struct url_parts {
  std::string_view transport;
  std::string_view host;
  std::string_view rest;  ///< ":PORT", or a path
};

url_parts parts_of(std::string_view url) {
  const std::size_t colon = url.find("://");
  if (colon == std::string_view::npos) {
    return {{}, {}, url};
  }
  const std::string_view transport = url.substr(0, colon);
  const std::string_view address = url.substr(colon + 3);
  const std::size_t port = transport == "tcp" ? address.rfind(':') : 0;
  if (port == std::string_view::npos) {
    return {transport, address, {}};
  }
  return {transport, address.substr(0, port), address.substr(port)};
}

/// Replaces a wildcard host by the host that the client connected to.
std::string reachable(std::string_view listed, const url_parts& own) {
  const url_parts parts = parts_of(listed);
  const bool any_host = parts.host == "*" || parts.host == "0.0.0.0" || parts.host == "[::]";
  if (!any_host || own.transport != parts.transport) {
    return std::string(listed);
  }
  return std::string(parts.transport) + "://" + std::string(own.host) + std::string(parts.rest);
}

/// The endpoint of shard `number` that corresponds to `url` in the answering shard's list.
std::optional<std::string> endpoint_of(const wire::welcome& welcome, std::size_t number, std::string_view url) {
  const url_parts own = parts_of(url);
  const std::vector<std::string>& own_endpoints = welcome.shards[welcome.answering];
  const std::vector<std::string>& endpoints = welcome.shards[number];
  const auto same = std::find_if(own_endpoints.begin(), own_endpoints.end(),
                                 [&](const std::string& each) { return reachable(each, own) == url; });
  const auto place = static_cast<std::size_t>(same - own_endpoints.begin());
  if (same != own_endpoints.end() && place < endpoints.size()) {
    return reachable(endpoints[place], own);
  }
  const auto alike = std::find_if(endpoints.begin(), endpoints.end(),
                                  [&](const std::string& each) { return parts_of(each).transport == own.transport; });
  return alike == endpoints.end() ? std::nullopt : std::optional{reachable(*alike, own)};
}

}  // namespace

std::optional<std::string> better_endpoint(const wire::welcome& welcome, std::string_view url) {
  const std::size_t shards = welcome.shards.size();
  if (welcome.shard == welcome.answering || welcome.shard >= shards || welcome.answering >= shards) {
    return std::nullopt;
  }
  return endpoint_of(welcome, welcome.shard, url);
}

std::vector<std::string> endpoints_of_all(const wire::welcome& welcome, std::string_view url) {
  if (welcome.answering >= welcome.shards.size()) {
    return {};
  }
  std::vector<std::string> all;
  for (std::size_t number = 0; number < welcome.shards.size(); ++number) {
    all.push_back(number == welcome.answering ? std::string(url) : endpoint_of(welcome, number, url).value_or(""));
  }
  return all;
}

}  // namespace penstock::link
