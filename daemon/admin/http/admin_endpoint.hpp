#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "daemon/admin/http/api.hpp"
#include "daemon/admin/http/http_server.hpp"
#include "daemon/admin/http/metrics.hpp"
#include "daemon/admin/http/shard_reports.hpp"
#include "daemon/admin/http/trace_collector.hpp"
#include "daemon/admin/roll_call.hpp"
#include "daemon/admin/shard_thread.hpp"
#include "daemon/settings/settings.hpp"

namespace penstock {

/// The daemon's HTTP endpoint for health, metrics, status, timelines and reload. Thread: the admin's.
class admin_endpoint {
 public:
  /// How long a shard has to answer.
  static constexpr std::chrono::seconds patience{2};

  /// Takes the addresses; nobody can connect before `start`. Throws std::runtime_error when one can't be had. All that
  /// is passed must outlive it.
  admin_endpoint(boost::asio::io_context& admin, std::deque<shard_thread>& shards, const settings& how, reloader reload,
                 std::function<daemon_vitals()> vitals);

  /// Once all shards serve. Throws std::runtime_error.
  void start();
  /// From now on /readyz says that the daemon drains; the rest goes on.
  void drain() { api_.set(daemon_state::draining); }
  /// These hold from now on: hang_timeout.
  void adopt(const settings& how) { api_.set_patience(how.wheel.hang_timeout / 2); }
  /// Finishes the answers that are being made and calls `done`, within a second.
  void stop(std::function<void()> done) { server_.stop(std::move(done)); }
  /// Each reload, whoever asked for it.
  void count_reload(const reload_outcome& made) { metrics_.count_reload(made); }

  /// As bound; empty when there is none.
  [[nodiscard]] std::vector<std::string> addresses() const { return server_.addresses(); }

 private:
  std::deque<shard_thread>& shards_;
  roll_call roll_call_;
  shard_reports reports_;
  trace_collector traces_;
  metrics metrics_;
  api api_;
  http_server server_;
};

}  // namespace penstock
