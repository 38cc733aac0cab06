#include "daemon/admin/http/http_guard.hpp"

#include <algorithm>
#include <cctype>

#include <boost/asio/ip/address.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>

namespace penstock {
namespace {

namespace http = boost::beast::http;

std::string text_of(boost::beast::string_view view) {
  return {view.data(), view.size()};
}

/// The host of "host:port", of "[::1]:port", or of either without its port.
std::string host_of(const std::string& authority) {
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    return end == std::string::npos ? "" : authority.substr(1, end - 1);
  }
  return authority.substr(0, authority.find(':'));
}

bool is_numeric(const std::string& host) {
  boost::system::error_code wrong;
  (void)boost::asio::ip::make_address(host, wrong);
  return !wrong;
}

bool knows(const http_names& names, const std::string& authority) {
  std::string host = host_of(authority);
  std::transform(host.begin(), host.end(), host.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return names.any || host == "localhost" || is_numeric(host) ||
         std::find(names.known.begin(), names.known.end(), host) != names.known.end();
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
