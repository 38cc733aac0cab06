#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/admin/roll_call.hpp"
#include "daemon/admin/service_manager.hpp"
#include "daemon/admin/shard_thread.hpp"
#include "daemon/admin/status_line.hpp"
#include "daemon/admin/watchdog.hpp"
#include "daemon/settings/settings.hpp"

namespace penstock {

/// Asks the shards for their pulse again and again, and tells the service manager: that the daemon is alive, when the
/// watchdog finds nothing wrong and no other thread is silent for long; what it does, as the status line; and in a
/// drain, that it needs more time.
///
/// It asks four times in a watchdog's timeout, at least every five seconds: a shard may take a quarter of the timeout
/// to answer, and the admin loop may be held for half of it, before the manager misses anything. Without a service
/// manager it asks nobody. Thread: the admin's.
class heartbeat {
 public:
  /// The first beat comes at once. `shards` serve by now; they and `manager` outlive it, and so does `admin`.
  heartbeat(boost::asio::io_context& admin, std::deque<shard_thread>& shards, service_manager& manager,
            const settings& how, std::function<std::string()> silent_threads);

  /// These hold from now on: hang_timeout and drain_timeout.
  void adopt(const settings& how);
  /// The shards drain from now on. Until the drain timeout, and as long as requests end, the manager is asked for time.
  void drain();

 private:
  void beat();
  void wait();
  [[nodiscard]] std::chrono::microseconds pause() const;
  void take(const std::vector<std::optional<shard_pulse>>& pulses);
  void watch(const std::vector<shard_sign>& signs);
  void extend(time_point now, const std::vector<shard_sign>& signs);

  std::deque<shard_thread>& shards_;
  service_manager& manager_;
  roll_call roll_call_;
  boost::asio::steady_timer timer_;
  watchdog watchdog_;
  std::function<std::string()> silent_threads_;
  status_line line_;
  std::string complaint_;  // the last one that was logged; empty when all is well
  std::chrono::nanoseconds drain_timeout_;
  std::optional<time_point> drain_until_;  // in a drain
  std::uint64_t last_unfinished_ = 0;      // requests, at the last beat of a drain
};

}  // namespace penstock
