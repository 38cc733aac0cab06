#include "client/cli/admin_http.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include "penstock_version.hpp"

namespace penstock::cli {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;

constexpr std::uint64_t largest_body = std::uint64_t{64} << 20U;

/// One request in flight. Lives until its io_context has no more work.
template <class Protocol>
class exchange {
 public:
  exchange(asio::io_context& io, http::request<http::empty_body> request, std::chrono::nanoseconds timeout)
      : stream_(io), request_(std::move(request)) {
    parser_.body_limit(largest_body);
    stream_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
  }

  template <class Endpoints>
  void start(const Endpoints& endpoints) {
    stream_.async_connect(endpoints, [this](error_code failed, const auto&...) {
      if (!note(failed)) {
        http::async_write(stream_, request_, [this](error_code unsent, std::size_t) {
          if (!note(unsent)) {
            read();
          }
        });
      }
    });
  }

  /// After the io_context has run. Throws std::system_error.
  [[nodiscard]] http_answer answer() {
    if (failed_) {
      throw boost::system::system_error(failed_);
    }
    return {parser_.get().result_int(), std::move(parser_.get().body())};
  }

 private:
  bool note(error_code failed) {
    failed_ = failed;
    return static_cast<bool>(failed);
  }
  void read() {
    http::async_read(stream_, buffer_, parser_, [this](error_code unread, std::size_t) { note(unread); });
  }

  boost::beast::basic_stream<Protocol> stream_;
  http::request<http::empty_body> request_;
  boost::beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  error_code failed_;
};

template <class Protocol, class Endpoints>
http_answer run(asio::io_context& io, const Endpoints& endpoints, http::request<http::empty_body> request,
                std::chrono::nanoseconds timeout) {
  exchange<Protocol> one(io, std::move(request), timeout);
  one.start(endpoints);
  io.run();
  return one.answer();
}

http_answer ask(const admin_address& address, http::request<http::empty_body> request,
                std::chrono::nanoseconds timeout) {
  const bool six = address.host.find(':') != std::string::npos;
  request.set(http::field::host, !address.path.empty() ? "localhost" : six ? "[" + address.host + "]" : address.host);
  request.set(http::field::user_agent, std::string("penstock/") + version);
  asio::io_context io{1};
  try {
    if (!address.path.empty()) {
      return run<stream_protocol>(io, stream_protocol::endpoint(address.path), std::move(request), timeout);
    }
    tcp::resolver resolver(io);
    return run<tcp>(io, resolver.resolve(address.host, address.port), std::move(request), timeout);
  } catch (const boost::system::system_error& failed) {
    const std::string host = six ? "[" + address.host + "]" : address.host;
    const std::string where = address.path.empty() ? host + ":" + address.port : "unix:" + address.path;
    throw admin_unreachable("the daemon's admin HTTP at " + where + " does not answer: " + failed.code().message());
  }
}

}  // namespace

std::optional<admin_address> parse_admin_address(std::string_view text) {
  constexpr std::string_view local = "unix:";
  constexpr std::string_view scheme = "http://";
  if (text.starts_with(local)) {
    text.remove_prefix(local.size());
    return text.empty() ? std::nullopt : std::optional<admin_address>({"", "", std::string(text)});
  }
  if (text.starts_with(scheme)) {
    text.remove_prefix(scheme.size());
    text = text.substr(0, text.find('/'));
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return std::nullopt;
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool is_number = !port.empty() && port.size() <= 5 &&
                         std::all_of(port.begin(), port.end(), [](unsigned char c) { return std::isdigit(c) != 0; }) &&
                         std::stoi(std::string(port)) <= 65535;
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  return is_number && !host.empty() ? std::optional<admin_address>({std::string(host), std::string(port)})
                                    : std::nullopt;
}

http_answer admin_get(const admin_address& address, const std::string& target, std::chrono::nanoseconds timeout) {
  return ask(address, {http::verb::get, target, 11}, timeout);
}

http_answer admin_post(const admin_address& address, const std::string& target, std::chrono::nanoseconds timeout) {
  http::request<http::empty_body> request{http::verb::post, target, 11};
  request.set("X-Penstock", "1");
  request.prepare_payload();
  return ask(address, std::move(request), timeout);
}

namespace {

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

bool is_any(const std::string& host) {
  return host == "0.0.0.0" || host == "::";
}

/// "" for a URL that is not TCP: that daemon runs on this machine.
std::string host_of(const std::string& url) {
  constexpr std::string_view tcp = "tcp://";
  if (!url.starts_with(tcp)) {
    return "";
  }
  std::string host = url.substr(tcp.size(), url.rfind(':') - tcp.size());
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

admin_address default_admin_address() {
  return {"127.0.0.1", "7680"};
}

std::string text_of(const admin_address& address) {
  if (!address.path.empty()) {
    return "unix:" + address.path;
  }
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address.host + "]" : address.host) + ":" + address.port;
}

CLI::Option* add_admin_option(CLI::App& app, std::optional<admin_address>& address) {
  const auto read = [&address](const CLI::results_t& texts) {
    address = parse_admin_address(texts.back());
    return address.has_value();
  };
  return app
      .add_option("--admin", read,
                  "The daemon's admin HTTP: HOST:PORT, or unix:PATH; else the one that the daemon at --url names, or " +
                      text_of(default_admin_address()))
      ->type_name("ADDRESS")
      ->envname("PENSTOCK_ADMIN");
}

admin_address choose_admin_address(const std::string& status, const std::string& url) {
  const nlohmann::json body = nlohmann::json::parse(status, nullptr, /*allow_exceptions=*/false);
  const std::string daemon = "the daemon at " + url;
  if (!body.is_object() || !body.contains("admin") || !body["admin"].is_array()) {
    throw std::runtime_error(daemon + " does not say where its admin HTTP is: give --admin");
  }
  const std::string host = host_of(url);
  const bool is_here = host.empty() || is_loopback(host);
  std::string local;
  for (const nlohmann::json& each : body["admin"]) {
    auto address = each.is_string() ? parse_admin_address(each.get_ref<const std::string&>()) : std::nullopt;
    if (!address) {
      continue;
    }
    if (is_any(address->host)) {
      address->host = host.empty() ? "127.0.0.1" : host;
    }
    if (is_here || (address->path.empty() && !is_loopback(address->host))) {
      return *address;
    }
    local = text_of(*address);
  }
  throw std::runtime_error(
      local.empty() ? daemon + " has no admin HTTP: admin.listen in its configuration gives it one"
                    : daemon + " has its admin HTTP at " + local +
                          ", for its own machine alone: call penstock there, or forward it and give --admin");
}

}  // namespace penstock::cli
