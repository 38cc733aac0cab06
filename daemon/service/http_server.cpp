#include "daemon/service/http_server.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/verb.hpp>
#include <boost/beast/http/write.hpp>
#include <netinet/in.h>
#include <sys/stat.h>

#include "base/quantity.hpp"
#include "daemon/config/endpoint.hpp"
#include "penstock_version.hpp"

namespace penstock {
namespace {

namespace http = boost::beast::http;

std::string text_of(boost::beast::string_view view) {
  return {view.data(), view.size()};
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
  if ((!rest.empty() && !(rest.front() == ':' && parse_number<std::uint16_t>(rest.substr(1)))) ||
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

std::optional<http_reply> refusal_of(const http::header<true, http::fields>& request, const http_names& names) {
  const auto hosts = request.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && request.version() >= 11)) {
    return http_reply{.status = 400, .body = "a request needs one Host\n"};
  }
  if (hosts == 1 && !knows(names, text_of(request[http::field::host]))) {
    return http_reply{.status = 421, .body = "the Host is neither an address nor localhost nor one of [admin] names\n"};
  }
  if (!request.target().starts_with('/')) {
    return http_reply{.status = 400, .body = "the target must begin with /\n"};
  }
  if (!only_reads(request.method()) && request["X-Penstock"] != "1") {
    return http_reply{.status = 403, .body = "what changes something needs the header X-Penstock: 1\n"};
  }
  return std::nullopt;
}

http_request read_request(const http::header<true, http::fields>& request) {
  const std::string target = text_of(request.target());
  const std::size_t mark = std::min(target.find('?'), target.size());
  http_request made{.method = only_reads(request.method()) ? "GET" : text_of(request.method_string()),
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

http_connection::http_connection(boost::asio::io_context& io, const http_limits& limits, http_names names,
                                 const http_handler& handler, std::function<void(const http_connection&)> ended)
    : stream_(io),
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

namespace {

using boost::system::error_code;

// Without a descriptor to spare, the next try would fail at once.
constexpr std::chrono::milliseconds rest{100};

}  // namespace

http_server::http_server(boost::asio::io_context& io, const admin_settings& settings, http_handler handler,
                         http_limits limits)
    : io_(io), handler_(std::move(handler)), limits_(limits), names_(settings.names), patience_(io) {
  for (const std::string& text : settings.listen) {
    listeners_.emplace_back(io, parse_admin_address(text).value());
  }
}

void http_server::start() {
  for (http_listener& each : listeners_) {
    each.listen();
    accept(each);
  }
}

void http_server::accept(http_listener& listener) {
  const auto next = std::make_shared<http_connection>(io_, limits_, http_names{names_, listener.is_unix()}, handler_,
                                                      [this](const http_connection& ended) { forget(ended); });
  listener.socket().async_accept(next->socket(), [this, &listener, next](const error_code& failed) {
    if (stopping_) {
      return;
    }
    if (!failed) {
      take(next);
      accept(listener);
      return;
    }
    // The connection that waits may be the operator's, and one that has a place a stranger's.
    if (!connections_.empty()) {
      (void)make_room();
    }
    listener.rest().expires_after(rest);
    listener.rest().async_wait([this, &listener](const error_code&) {
      if (!stopping_) {
        accept(listener);
      }
    });
  });
}

void http_server::take(const std::shared_ptr<http_connection>& next) {
  if (connections_.size() < limits_.connections || make_room()) {
    connections_.push_back(next);
    next->start();
  }
}

bool http_server::make_room() {
  const auto longest =
      std::min_element(connections_.begin(), connections_.end(), [](const auto& left, const auto& right) {
        return std::pair(!left->is_waiting(), left->waiting_since()) <
               std::pair(!right->is_waiting(), right->waiting_since());
      });
  if (!(*longest)->is_waiting()) {
    return false;
  }
  (*longest)->close();
  return true;
}

void http_server::forget(const http_connection& ended) {
  connections_.remove_if([&](const auto& each) { return each.get() == &ended; });
  check_stopped();
}

void http_server::stop(std::function<void()> done) {
  stopping_ = true;
  stopped_ = std::move(done);
  for (http_listener& each : listeners_) {
    each.rest().cancel();
    each.close();
  }
  for (const auto& each : std::list(connections_)) {
    each->finish();
  }
  patience_.expires_after(limits_.stop_timeout);
  patience_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) {
      for (const auto& each : std::list(connections_)) {
        each->close();
      }
    }
  });
  check_stopped();
}

void http_server::check_stopped() {
  if (stopped_ && connections_.empty()) {
    patience_.cancel();
    boost::asio::post(io_, std::exchange(stopped_, nullptr));
  }
}

std::vector<std::string> http_server::addresses() const {
  std::vector<std::string> names;
  for (const http_listener& each : listeners_) {
    names.push_back(each.name());
  }
  return names;
}

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;

constexpr mode_t socket_mode = 0660;

std::string url_of(const std::string& host, std::uint16_t port) {
  const bool six = host.find(':') != std::string::npos;
  return "http://" + (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool somebody_listens(const std::string& path) {
  asio::io_context alone;
  stream_protocol::socket probe(alone);
  boost::system::error_code refused;
  probe.connect(stream_protocol::endpoint(path), refused);
  return refused != asio::error::connection_refused;
}

}  // namespace

http_listener::http_listener(asio::io_context& io, const admin_address& address)
    : acceptor_(io), rest_(io), path_(address.path) {
  name_ = is_unix() ? "unix:" + address.path : url_of(address.host, address.port);
  try {
    is_unix() ? bind_unix() : bind_tcp(address);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error("the admin endpoint can't listen on " + name_ + ": " + error.code().message() +
                             " ([admin] listen says where)");
  }
}

http_listener::~http_listener() {
  close();
}

void http_listener::bind_tcp(const admin_address& address) {
  const tcp::endpoint wanted(asio::ip::make_address(address.host), address.port);
  acceptor_.open(wanted.protocol());
  acceptor_.set_option(acceptor::reuse_address(true));
  acceptor_.bind(wanted);
  const auto bound = acceptor_.local_endpoint();
  tcp::endpoint read;
  std::memcpy(read.data(), bound.data(), std::min(bound.size(), read.capacity()));
  name_ = url_of(address.host, read.port());
}

void http_listener::bind_unix() {
  struct stat found {};
  if (::lstat(path_.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) && !somebody_listens(path_)) {
    std::error_code kept;
    std::filesystem::remove(path_, kept);
    if (kept) {
      throw boost::system::system_error(boost::system::error_code(kept.value(), boost::system::system_category()));
    }
  }
  acceptor_.open(stream_protocol());
  acceptor_.bind(stream_protocol::endpoint(path_.string()));
  file_is_ours_ = true;
  std::error_code refused;
  std::filesystem::permissions(path_, std::filesystem::perms{socket_mode}, refused);
  if (refused) {
    throw boost::system::system_error(boost::system::error_code(refused.value(), boost::system::system_category()));
  }
}

void http_listener::listen() {
  boost::system::error_code failed;
  acceptor_.listen(acceptor::max_listen_connections, failed);
  if (failed) {
    throw std::runtime_error("the admin endpoint can't listen on " + name_ + ": " + failed.message());
  }
}

void http_listener::close() noexcept {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  if (file_is_ours_) {
    file_is_ours_ = false;
    std::error_code gone;
    std::filesystem::remove(path_, gone);
  }
}

}  // namespace penstock
