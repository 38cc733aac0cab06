#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "daemon/config/endpoint.hpp"
#include "daemon/config/settings.hpp"

namespace penstock {

/// A request whose form, Host and, where it would change something, X-Penstock are good.
struct http_request {
  std::string method{};                        ///< "GET" also for HEAD, of which the server sends no body
  std::string path{};                          ///< without the query
  std::map<std::string, std::string> query{};  ///< as given; the last of two with one name
};

struct http_reply {
  unsigned status = 200;
  std::string body{};
  std::string type = "text/plain; charset=utf-8";
  std::string allow{};  ///< of 405: which methods the path has
};

/// Answers one request: it calls `done` exactly once, at once or later, on the same thread.
using http_handler = std::function<void(const http_request& request, std::function<void(http_reply)> done)>;

/// Limits on what clients may send and how long they may take.
struct http_limits {
  std::size_t connections = 64;
  std::uint32_t header_bytes = 8U << 10U;
  std::size_t body_bytes = std::size_t{4} << 10U;
  /// From being ready for a request to having read all of it; the wait between two requests counts.
  std::chrono::milliseconds read_timeout = std::chrono::seconds{30};
  std::chrono::milliseconds write_timeout = std::chrono::seconds{30};
  /// At the end, for answers that are being made or sent.
  std::chrono::milliseconds stop_timeout = std::chrono::seconds{1};
};

/// The hosts that a request may name.
struct http_names {
  std::vector<std::string> known{};  ///< beside numeric addresses and localhost
  bool any = false;                  ///< on a Unix socket, which no browser reaches
};

/// The refusal of a request before its path is looked at; nullopt when it is good.
///
/// A page in a browser on this machine can send requests to loopback. The browser keeps it from reading the answers,
/// unless a name is made to point here (DNS rebinding): so a Host that is an unknown name is refused. What changes
/// something needs the header `X-Penstock: 1`, which a browser sends for a page only after a preflight request, and
/// that is refused.
[[nodiscard]] std::optional<http_reply> refusal_of(
    const boost::beast::http::header<true, boost::beast::http::fields>& request, const http_names& names);

/// The method, path and query of a request that was not refused.
[[nodiscard]] http_request read_request(const boost::beast::http::header<true, boost::beast::http::fields>& request);

/// One connection: reads a request, passes it to the handler, sends the reply, and so on. Its pending operations own
/// it. Thread: the io_context's.
class http_connection : public std::enable_shared_from_this<http_connection> {
 public:
  using stream = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;

  /// `ended` is called once, when it is closed for whatever reason.
  http_connection(boost::asio::io_context& io, const http_limits& limits, http_names names, const http_handler& handler,
                  std::function<void(const http_connection&)> ended);

  /// Where the connection is accepted into.
  [[nodiscard]] stream::socket_type& socket() noexcept { return stream_.socket(); }
  void start();
  /// Closes it once the answer that is being made or sent is out; at once when there is none.
  void finish();
  void close();

  /// It waits for a request, or for the rest of one.
  [[nodiscard]] bool is_waiting() const noexcept { return waiting_; }
  [[nodiscard]] std::chrono::steady_clock::time_point waiting_since() const noexcept { return waiting_since_; }

 private:
  using parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void read();
  void take(boost::beast::error_code error);
  void send(http_reply reply, bool last);
  template <typename Message>
  void write(std::shared_ptr<Message> message, bool last);
  void linger();

  stream stream_;
  const http_limits& limits_;
  http_names names_;
  const http_handler& handler_;
  std::function<void(const http_connection&)> ended_;
  boost::beast::flat_buffer buffer_;
  std::optional<parser> parser_;
  std::size_t unread_bytes_ = 0;  // that were thrown away after the last answer
  bool waiting_ = false;
  bool finishing_ = false;
  std::chrono::steady_clock::time_point waiting_since_;
};

/// An address that is taken; nobody can connect before `listen`. A Unix socket has mode 0660, and its file goes with
/// it. Immovable: the file is its own.
class http_listener {
 public:
  using acceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

  /// Takes the place of a Unix socket that nobody listens on any more. Throws std::runtime_error, which names the
  /// address, when it can't be had.
  http_listener(boost::asio::io_context& io, const admin_address& address);
  ~http_listener();
  http_listener(const http_listener&) = delete;
  http_listener& operator=(const http_listener&) = delete;

  /// Throws std::runtime_error.
  void listen();
  /// Nobody can connect from now on.
  void close() noexcept;

  [[nodiscard]] acceptor& socket() noexcept { return acceptor_; }
  /// For a pause after no connection could be accepted.
  [[nodiscard]] boost::asio::steady_timer& rest() noexcept { return rest_; }
  /// As bound: "http://127.0.0.1:7680", "unix:/run/penstock/admin.sock".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool is_unix() const noexcept { return !path_.empty(); }

 private:
  void bind_tcp(const admin_address& address);
  void bind_unix();

  acceptor acceptor_;
  boost::asio::steady_timer rest_;
  std::filesystem::path path_;
  std::string name_;
  bool file_is_ours_ = false;
};

/// HTTP/1.1 on a few addresses, for a few connections at a time. It never blocks; all that it does runs on the
/// io_context, whose thread calls it. When every place is taken a new connection gets that of the one which has kept
/// the server waiting for longest, so that nobody can keep others out by sending nothing.
class http_server {
 public:
  /// Takes the addresses; nobody can connect yet. Throws std::runtime_error.
  http_server(boost::asio::io_context& io, const admin_settings& settings, http_handler handler,
              http_limits limits = {});
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  /// The io_context must not run any more, or the server have been stopped.
  ~http_server() = default;

  /// Throws std::runtime_error.
  void start();
  /// Takes nobody any more, sends the answers that are being made, and calls `done`, after limits.stop_timeout at the
  /// latest.
  void stop(std::function<void()> done);

  /// As bound: "http://127.0.0.1:7680", "unix:/run/penstock/admin.sock".
  [[nodiscard]] std::vector<std::string> addresses() const;
  [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }

 private:
  void accept(http_listener& listener);
  void take(const std::shared_ptr<http_connection>& next);
  [[nodiscard]] bool make_room();
  void forget(const http_connection& ended);
  void check_stopped();

  boost::asio::io_context& io_;
  http_handler handler_;
  http_limits limits_;
  std::vector<std::string> names_;
  std::list<http_listener> listeners_;
  std::list<std::shared_ptr<http_connection>> connections_;
  boost::asio::steady_timer patience_;
  std::function<void()> stopped_;
  bool stopping_ = false;
};

}  // namespace penstock
