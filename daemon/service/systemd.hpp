#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/config/settings.hpp"
#include "daemon/request/request.hpp"
#include "daemon/service/shard_thread.hpp"
#include "daemon/shard/shard.hpp"

namespace penstock {

/// What systemd, or whoever else started the daemon with a NOTIFY_SOCKET, is told (sd_notify(3)). Without one, every
/// member does nothing. Thread: the admin's.
///
/// The variable stays in the environment: libsystemd reads it for each message, and taking it out would race with the
/// driver's threads, which read the environment too. What a process that the driver starts would send is refused by
/// the unit's NotifyAccess=main.
class service_manager {
 public:
  /// Before other threads start: takes the watchdog's variables out of the environment.
  service_manager();

  [[nodiscard]] bool present() const noexcept { return present_; }
  /// How long the manager waits for `alive` before it restarts the daemon; nothing when it does not.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog_timeout() const noexcept { return watchdog_; }

  /// The start is done; or the reload is.
  void ready();
  /// One line for people, which `systemctl status` shows.
  void status(const std::string& line);
  /// Feeds the watchdog.
  void alive();
  /// A reload begins; `ready` ends it, whatever came of it.
  void reloading();
  /// The stop begins, by whomever it was asked for.
  void stopping();
  /// The start or stop under way may take this much longer from now, beyond the timeout of the unit.
  void extend_timeout(std::chrono::microseconds time);

 private:
  void tell(const std::string& message);

  bool present_;
  bool unheard_ = false;  // the last message did not arrive, and that is in the log
  std::optional<std::chrono::microseconds> watchdog_;
};

/// What one shard showed when it was asked.
struct shard_sign {
  bool ended = false;                ///< it has stopped serving, and answers no more
  std::optional<shard_pulse> pulse;  ///< missing: it did not answer in time
};

/// Decides whether the service manager may be told that the daemon is alive. It is when, for every shard,
///
/// - the shard answers: its thread comes round, so it receives, sends, and lets requests expire. One that has ended, as
///   in a drain, need not;
/// - and its completion path moves: the device has nothing to do, or has finished a batch within hang_timeout and
///   `margin`. Batches that take seconds are healthy as long as the configuration calls them so.
///
/// The margin lets the shard find the hung batch first: it then answers everything in flight FAILED and exits with 75,
/// where the service manager could only kill it. A value without a clock: a pulse says for how long nothing moved.
class watchdog {
 public:
  static constexpr std::chrono::seconds margin{5};

  explicit watchdog(std::chrono::nanoseconds hang_timeout) { set_patience(hang_timeout); }

  void set_patience(std::chrono::nanoseconds hang_timeout) noexcept { patience_ = hang_timeout + margin; }

  /// What keeps the daemon from being called alive; empty when nothing does. `shards` stand by number.
  [[nodiscard]] std::string complaint(const std::vector<shard_sign>& shards) const;

 private:
  std::chrono::nanoseconds patience_;
};

/// Writes what `systemctl status` shows of the daemon: "serving 12 pipelines: 15 234 results/s, 3 clients, 2 shards".
class status_line {
 public:
  /// The rate counts from `start`.
  explicit status_line(time_point start) : then_(start) {}

  /// The rate is of the time since the last line. A shard that did not answer is written with what it last said.
  [[nodiscard]] std::string write(time_point now, const std::vector<shard_sign>& shards, bool draining);

 private:
  time_point then_;
  std::vector<shard_pulse> known_;  // by shard
};

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
            const settings& settings, std::function<std::string()> silent_threads);

  /// These hold from now on: hang_timeout and drain_timeout.
  void adopt(const settings& settings);
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
  shard_query shard_query_;
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
