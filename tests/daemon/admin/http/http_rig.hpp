#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "daemon/admin/http/http_server.hpp"

namespace penstock::testing {

namespace http = boost::beast::http;
using http_answer = http::response<http::string_body>;

/// A client that sends what it is told, byte by byte, and waits for at most ten seconds.
class http_peer {
 public:
  explicit http_peer(std::uint16_t port) : socket_(io_) {
    socket_.connect({boost::asio::ip::address_v4::loopback(), port});
    const timeval patience{10, 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }

  void send(const std::string& bytes) {
    boost::system::error_code gone;  // the server may refuse before it has read all
    boost::asio::write(socket_, boost::asio::buffer(bytes), gone);
  }
  /// nullopt when the server closed the connection instead.
  std::optional<http_answer> receive(bool to_head = false) {
    http::response_parser<http::string_body> parser;
    parser.skip(to_head);
    boost::system::error_code closed;
    http::read(socket_, buffer_, parser, closed);
    return closed ? std::nullopt : std::optional(parser.release());
  }
  std::optional<http_answer> ask(const std::string& request) {
    send(request);
    return receive(request.starts_with("HEAD"));
  }
  /// Waits until the server closes the connection; false when it sends something.
  bool is_closed() {
    char one = 0;
    boost::system::error_code error;
    const std::size_t got = socket_.read_some(boost::asio::buffer(&one, 1), error);
    return got == 0 && (error == boost::asio::error::eof || error == boost::asio::error::connection_reset);
  }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
};

/// A server on a free port, whose io_context runs on a thread of its own.
class http_rig {
 public:
  explicit http_rig(http_handler handler, http_limits limits = {}, admin_settings how = {.listen = {"127.0.0.1:0"}})
      : server_(io_, how, std::move(handler), limits) {
    server_.start();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~http_rig() {
    io_.stop();
    thread_.join();
  }
  http_rig(const http_rig&) = delete;
  http_rig& operator=(const http_rig&) = delete;

  [[nodiscard]] std::uint16_t port() const {
    const std::string name = server_.addresses().at(0);
    return static_cast<std::uint16_t>(std::stoi(name.substr(name.rfind(':') + 1)));
  }
  /// On the server's thread.
  void post(std::function<void()> what) { boost::asio::post(io_, std::move(what)); }
  [[nodiscard]] http_server& server() noexcept { return server_; }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_ = boost::asio::make_work_guard(io_);
  http_server server_;
  std::thread thread_;
};

}  // namespace penstock::testing
