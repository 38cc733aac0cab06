#include "client/cli/admin_http.hpp"

#include <algorithm>
#include <cctype>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "penstock_version.hpp"

namespace penstock::cli {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using asio::local::stream_protocol;
using boost::system::error_code;

constexpr std::uint64_t largest_body = std::uint64_t{64} << 20U;

/// One exchange under way. It lives until its io_context has nothing more to do.
template <class Protocol>
class exchange {
 public:
  exchange(asio::io_context& io, http::request<http::empty_body> request, std::chrono::nanoseconds timeout)
      : stream_(io), request_(std::move(request)) {
    parser_.body_limit(largest_body);
    stream_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
  }

  template <class Endpoints>
  void start(const Endpoints& where) {
    stream_.async_connect(where, [this](error_code failed, const auto&...) {
      if (!note(failed)) {
        http::async_write(stream_, request_, [this](error_code unsent, std::size_t) {
          if (!note(unsent)) {
            read();
          }
        });
      }
    });
  }

  /// Once the io_context has run. Throws std::system_error.
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
http_answer run(asio::io_context& io, const Endpoints& where, http::request<http::empty_body> request,
                std::chrono::nanoseconds timeout) {
  exchange<Protocol> one(io, std::move(request), timeout);
  one.start(where);
  io.run();
  return one.answer();
}

http_answer ask(const admin_address& whom, http::request<http::empty_body> request, std::chrono::nanoseconds timeout) {
  const bool six = whom.host.find(':') != std::string::npos;
  request.set(http::field::host, !whom.path.empty() ? "localhost" : six ? "[" + whom.host + "]" : whom.host);
  request.set(http::field::user_agent, std::string("penstock/") + version);
  asio::io_context io{1};
  try {
    if (!whom.path.empty()) {
      return run<stream_protocol>(io, stream_protocol::endpoint(whom.path), std::move(request), timeout);
    }
    tcp::resolver resolver(io);
    return run<tcp>(io, resolver.resolve(whom.host, whom.port), std::move(request), timeout);
  } catch (const boost::system::system_error& failed) {
    const std::string host = six ? "[" + whom.host + "]" : whom.host;
    const std::string where = whom.path.empty() ? host + ":" + whom.port : "unix:" + whom.path;
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

http_answer admin_get(const admin_address& from, const std::string& target, std::chrono::nanoseconds timeout) {
  return ask(from, {http::verb::get, target, 11}, timeout);
}

http_answer admin_post(const admin_address& to, const std::string& target, std::chrono::nanoseconds timeout) {
  http::request<http::empty_body> request{http::verb::post, target, 11};
  request.set("X-Penstock", "1");
  request.prepare_payload();
  return ask(to, std::move(request), timeout);
}

}  // namespace penstock::cli
