#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/admin/http/http_connection.hpp"
#include "daemon/admin/http/http_listener.hpp"
#include "daemon/admin/http/http_message.hpp"
#include "daemon/settings/settings.hpp"

namespace penstock {

/// HTTP/1.1 on a few addresses, for a few connections at a time. It never blocks; all that it does runs on the
/// io_context, whose thread calls it. When every place is taken a new connection gets that of the one which has kept
/// the server waiting for longest, so that nobody can keep others out by sending nothing.
class http_server {
 public:
  /// Takes the addresses; nobody can connect yet. Throws std::runtime_error.
  http_server(boost::asio::io_context& on, const admin_settings& how, http_handler handler, http_limits limits = {});
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
  void accept(http_listener& at);
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
