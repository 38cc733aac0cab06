#pragma once

#include <filesystem>
#include <string>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/settings/admin_address.hpp"

namespace penstock {

/// An address that is taken; nobody can connect before `listen`. A Unix socket has mode 0660, and its file goes with
/// it. Immovable: the file is its own.
class http_listener {
 public:
  using acceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

  /// Takes the place of a Unix socket that nobody listens on any more. Throws std::runtime_error, which names the
  /// address, when it can't be had.
  http_listener(boost::asio::io_context& on, const admin_address& where);
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
  void bind_tcp(const admin_address& where);
  void bind_unix();

  acceptor acceptor_;
  boost::asio::steady_timer rest_;
  std::filesystem::path path_;
  std::string name_;
  bool file_is_ours_ = false;
};

}  // namespace penstock
