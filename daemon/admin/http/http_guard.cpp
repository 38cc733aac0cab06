#include "daemon/admin/http/http_guard.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string_view>

#include <arpa/inet.h>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <netinet/in.h>

namespace penstock {
namespace {

namespace http = boost::beast::http;

std::string text_of(boost::beast::string_view view) {
  return {view.data(), view.size()};
}

bool is_port_number(std::string_view text) noexcept {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return !text.empty() && error == std::errc{} && end == text.data() + text.size();
}

bool is_host_name(std::string_view host) noexcept {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '.' || letter == '_';
  });
}

/// `family`: AF_INET or AF_INET6; without a zone, which no browser sends.
bool is_address(int family, const std::string& host) noexcept {
  in6_addr parsed{};
  return ::inet_pton(family, host.c_str(), &parsed) == 1;
}

/// In small letters, the host of "host", "host:port", "[::1]" or "[::1]:port"; "" of anything else: what follows an
/// address, or stands before it, is somebody's try to pass for it.
std::string host_of(const std::string& authority) {
  const bool bracketed = authority.starts_with('[');
  const std::size_t end = bracketed ? authority.find(']') : std::min(authority.find(':'), authority.size());
  if (end == std::string::npos) {
    return "";
  }
  const std::string_view rest = std::string_view(authority).substr(bracketed ? end + 1 : end);
  std::string host = bracketed ? authority.substr(1, end - 1) : authority.substr(0, end);
  if ((!rest.empty() && !(rest.front() == ':' && is_port_number(rest.substr(1)))) ||
      !(bracketed ? is_address(AF_INET6, host) : is_host_name(host))) {
    return "";
  }
  std::transform(host.begin(), host.end(), host.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return host;
}

bool knows(const http_names& names, const std::string& authority) {
  if (names.any) {
    return true;
  }
  const std::string host = host_of(authority);
  return !host.empty() && (host == "localhost" || is_address(AF_INET, host) || authority.starts_with('[') ||
                           std::find(names.known.begin(), names.known.end(), host) != names.known.end());
}

bool only_reads(http::verb method) {
  return method == http::verb::get || method == http::verb::head;
}

}  // namespace

std::optional<http_reply> refusal_of(const http::header<true, http::fields>& asked, const http_names& names) {
  const auto hosts = asked.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && asked.version() >= 11)) {
    return http_reply{.status = 400, .body = "a request needs one Host\n"};
  }
  if (hosts == 1 && !knows(names, text_of(asked[http::field::host]))) {
    return http_reply{.status = 421, .body = "the Host is neither an address nor localhost nor one of [admin] names\n"};
  }
  if (!asked.target().starts_with('/')) {
    return http_reply{.status = 400, .body = "the target must begin with /\n"};
  }
  if (!only_reads(asked.method()) && asked["X-Penstock"] != "1") {
    return http_reply{.status = 403, .body = "what changes something needs the header X-Penstock: 1\n"};
  }
  return std::nullopt;
}

http_request read_request(const http::header<true, http::fields>& asked) {
  const std::string target = text_of(asked.target());
  const std::size_t mark = std::min(target.find('?'), target.size());
  http_request made{.method = only_reads(asked.method()) ? "GET" : text_of(asked.method_string()),
                    .path = target.substr(0, mark)};
  for (std::size_t begin = mark + 1; begin < target.size();) {
    const std::size_t end = std::min(target.find('&', begin), target.size());
    const std::string pair = target.substr(begin, end - begin);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    made.query[pair.substr(0, equals)] = equals == pair.size() ? "" : pair.substr(equals + 1);
    begin = end + 1;
  }
  return made;
}

}  // namespace penstock
