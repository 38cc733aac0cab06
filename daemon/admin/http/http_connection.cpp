#include "daemon/admin/http/http_connection.hpp"

#include <utility>

#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include "penstock_version.hpp"

namespace penstock {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

constexpr std::chrono::milliseconds linger_time{500};
constexpr std::size_t most_unread_bytes = std::size_t{256} << 10U;

/// What a request that can't be read is answered with; nullopt when there is nobody to answer.
std::optional<http_reply> complaint_about(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return http_reply{.status = 431, .body = "the header is too large\n"};
  }
  if (error == http::error::body_limit) {
    return http_reply{.status = 413, .body = "the body is too large\n"};
  }
  const bool is_of_http = error.category() == make_error_code(http::error::bad_method).category();
  if (!is_of_http || error == http::error::end_of_stream || error == http::error::partial_message) {
    return std::nullopt;
  }
  return http_reply{.status = 400, .body = "not a request: " + error.message() + "\n"};
}

}  // namespace

http_connection::http_connection(boost::asio::io_context& on, const http_limits& limits, http_names names,
                                 const http_handler& handler, std::function<void(const http_connection&)> ended)
    : stream_(on),
      limits_(limits),
      names_(std::move(names)),
      handler_(handler),
      ended_(std::move(ended)),
      buffer_(limits.header_bytes + limits.body_bytes) {}

void http_connection::start() {
  read();
}

void http_connection::read() {
  parser_.emplace();
  parser_->header_limit(limits_.header_bytes);
  parser_->body_limit(limits_.body_bytes);
  waiting_ = true;
  waiting_since_ = std::chrono::steady_clock::now();
  stream_.expires_after(limits_.read_timeout);
  http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](const error_code& error, std::size_t) {
    self->waiting_ = false;
    self->take(error);
  });
}

void http_connection::take(error_code error) {
  if (finishing_) {
    close();
    return;
  }
  if (error) {
    if (std::optional<http_reply> complaint = complaint_about(error)) {
      send(std::move(*complaint), true);
    } else {
      close();
    }
    return;
  }
  const bool last = !parser_->get().keep_alive();
  if (std::optional<http_reply> refusal = refusal_of(parser_->get(), names_)) {
    send(std::move(*refusal), last);
    return;
  }
  handler_(read_request(parser_->get()),
           [self = shared_from_this(), last](http_reply reply) { self->send(std::move(reply), last); });
}

void http_connection::send(http_reply reply, bool last) {
  const bool head = parser_->get().method() == http::verb::head;
  const auto made = std::make_shared<http::response<http::string_body>>(
      static_cast<http::status>(reply.status), parser_->get().version() >= 11 ? 11U : 10U, std::move(reply.body));
  made->set(http::field::server, std::string("penstockd/") + version);
  made->set(http::field::content_type, reply.type);
  made->set(http::field::cache_control, "no-store");
  made->set("X-Content-Type-Options", "nosniff");
  if (!reply.allow.empty()) {
    made->set(http::field::allow, reply.allow);
  }
  made->keep_alive(!last && !finishing_);
  made->prepare_payload();
  if (head) {
    write(std::make_shared<http::response<http::empty_body>>(made->base()), last);
  } else {
    write(made, last);
  }
}

template <typename Message>
void http_connection::write(std::shared_ptr<Message> message, bool last) {
  stream_.expires_after(limits_.write_timeout);
  http::async_write(stream_, *message,
                    [self = shared_from_this(), message, last](const error_code& error, std::size_t) {
                      if (error || self->finishing_) {
                        self->close();
                      } else if (last) {
                        error_code ignored;
                        self->stream_.socket().shutdown(boost::asio::socket_base::shutdown_send, ignored);
                        self->linger();
                      } else {
                        self->read();
                      }
                    });
}

// A socket that is closed with something unread resets the connection, and what was sent may be lost with it. So what
// a refused request still brings is thrown away, within limits.
void http_connection::linger() {
  waiting_ = true;
  waiting_since_ = std::chrono::steady_clock::now();
  buffer_.clear();
  stream_.expires_after(linger_time);
  stream_.async_read_some(buffer_.prepare(buffer_.max_size()),
                          [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                            self->unread_bytes_ += bytes;
                            if (error || self->unread_bytes_ > most_unread_bytes) {
                              self->close();
                            } else {
                              self->linger();
                            }
                          });
}

void http_connection::finish() {
  finishing_ = true;
  if (waiting_) {
    close();
  }
}

void http_connection::close() {
  waiting_ = false;
  error_code ignored;
  // What was sent still arrives.
  stream_.socket().shutdown(boost::asio::socket_base::shutdown_send, ignored);
  stream_.close();
  if (ended_) {
    std::exchange(ended_, nullptr)(*this);
  }
}

}  // namespace penstock
