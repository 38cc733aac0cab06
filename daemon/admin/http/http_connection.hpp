#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "daemon/admin/http/http_guard.hpp"
#include "daemon/admin/http/http_message.hpp"

namespace penstock {

/// One connection: reads a request, has it answered, sends the answer, and again. Held by what it waits for, so that it
/// ends itself. Thread: the io_context's.
class http_connection : public std::enable_shared_from_this<http_connection> {
 public:
  using stream = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;

  /// `ended` is called once, when it is closed for whatever reason.
  http_connection(boost::asio::io_context& on, const http_limits& limits, http_names names, const http_handler& handler,
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

}  // namespace penstock
