#include "daemon/settings/endpoint.hpp"

#include <algorithm>
#include <charconv>

namespace penstock {
namespace {

constexpr std::string_view tcp = "tcp://";
constexpr std::string_view ipc = "ipc://";
constexpr std::string_view inproc = "inproc://";

bool is_port(std::string_view text) noexcept {
  constexpr int last_port = 65535;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return text == "*" || (error == std::errc{} && end == text.data() + text.size() && number >= 0 &&
                         number <= last_port && text.front() != '-');
}

// 127.a.b.c: only numbers, so that no host's name passes for it.
bool is_loopback_address(std::string_view host) noexcept {
  constexpr std::string_view first = "127.";
  return host.starts_with(first) && host.find_first_not_of("0123456789.") == std::string_view::npos &&
         std::count(host.begin(), host.end(), '.') == 3;
}

}  // namespace

bool is_endpoint(std::string_view text) noexcept {
  if (text.starts_with(ipc)) {
    return text.size() > ipc.size() && text[ipc.size()] != '@' && text[ipc.size()] != '*';
  }
  if (text.starts_with(inproc)) {
    return text.size() > inproc.size();
  }
  const std::size_t colon = text.rfind(':');
  return text.starts_with(tcp) && colon > tcp.size() && is_port(text.substr(colon + 1));
}

bool is_beyond_loopback(std::string_view endpoint) noexcept {
  if (!endpoint.starts_with(tcp)) {
    return false;
  }
  const std::string_view host = endpoint.substr(tcp.size(), endpoint.rfind(':') - tcp.size());
  return !is_loopback_address(host) && host != "[::1]" && host != "lo";
}

}  // namespace penstock
