#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include "daemon/config/settings.hpp"
#include "daemon/service/http_server.hpp"
#include "daemon/service/metrics.hpp"
#include "daemon/service/reload.hpp"
#include "daemon/service/reports.hpp"
#include "daemon/service/shard_thread.hpp"
#include "daemon/telemetry/device_clock.hpp"
#include "daemon/telemetry/report.hpp"
#include "daemon/telemetry/timeline.hpp"

namespace penstock {

struct health_check {
  std::string name;
  bool passed = false;
  std::string reason;  ///< what is wrong; where nothing is, what is right
};

/// What the daemon knows of itself beside its shards' reports: each "" where nothing is wrong.
struct daemon_vitals {
  std::string shortage;  ///< of descriptors
  std::string late;      ///< threads that give no sign
  std::string dead;      ///< those that have given none for so long that the daemon is not alive
};

/// Whether the daemon is alive: every shard that has not ended comes round, and every other thread. In a drain, shards
/// end.
[[nodiscard]] health_check liveness_of(const shard_answers& shards, daemon_state state,
                                       const daemon_vitals& vitals = {});

/// Whether the daemon can be sent work: it has started, is not draining, every shard answers, no device has an error
/// that stays, no device has had a batch for longer than `patience` without finishing one, there are descriptors for
/// new connections, and every other thread gives signs of life.
[[nodiscard]] std::vector<health_check> readiness_of(const shard_answers& shards, daemon_state state,
                                                     std::chrono::nanoseconds patience,
                                                     const daemon_vitals& vitals = {});

[[nodiscard]] bool all_passed(const std::vector<health_check>& checks);
/// {"ready": true, "checks": [{"name": …, "passed": …, "reason": …}]}
[[nodiscard]] std::string print_checks(const std::vector<health_check>& checks);

/// Reads the configuration again and calls what it is given once, at once or later, on the admin's thread.
using reloader = std::function<void(std::function<void(reload_outcome)>)>;

/// Has every shard set tunable numbers of a pipeline, or tell of them if none are wanted, and calls what it is given
/// once with their answers, in the order of shards.
using number_setter =
    std::function<void(const std::string& pipeline, std::vector<wire::number_setting> wanted, bool everywhere,
                       std::function<void(std::vector<std::optional<shard::numbers_outcome>>)>)>;

/// What each path of the admin endpoint answers: one table of routes. Thread: the admin's.
class api {
 public:
  /// All of it must outlive this, and requests that are being answered. `patience`: how long a device may have a batch
  /// without finishing any, and the daemon be ready.
  struct parts {
    shard_reports& reports;
    trace_collector& traces;
    metrics& measured;
    reloader reload;
    time_source now;
    std::chrono::nanoseconds patience;
    std::function<std::size_t()> shards;      ///< how many there are
    std::function<daemon_vitals()> vitals{};  ///< as they are now; may be none
    number_setter set_numbers{};
  };

  explicit api(parts components);

  void set(daemon_state state) noexcept { state_ = state; }
  void set_patience(std::chrono::nanoseconds wanted) noexcept { parts_.patience = wanted; }
  /// Calls `done` once.
  void answer(const http_request& request, std::function<void(http_reply)> done);

 private:
  using replier = std::function<void(http_reply)>;

  /// One line of the table: to add a path, add one and a member that answers it.
  struct route {
    std::string_view method;
    std::string_view path;
    std::string_view query;  ///< an example, or ""
    std::string_view help;
    void (api::*handler)(const http_request& request, replier done);
  };
  [[nodiscard]] static std::span<const route> routes();
  [[nodiscard]] static std::string overview();

  [[nodiscard]] daemon_vitals vitals() const { return parts_.vitals ? parts_.vitals() : daemon_vitals{}; }
  void live(const http_request& request, replier done);
  void ready(const http_request& request, replier done);
  void scrape(const http_request& request, replier done);
  void status(const http_request& request, replier done);
  void trace(const http_request& request, replier done);
  void reload(const http_request& request, replier done);
  void values(const http_request& request, replier done);
  void set(const http_request& request, replier done);
  void set_numbers(const std::string& pipeline, std::vector<wire::number_setting> wanted, bool everywhere,
                   replier done);

  parts parts_;
  daemon_state state_ = daemon_state::starting;
  time_point started_at_;
  std::chrono::system_clock::time_point started_;
  bool reloading_ = false;
};

/// The daemon's HTTP endpoint for health, metrics, status, timelines and reload. Thread: the admin's.
class admin_endpoint {
 public:
  /// How long a shard has to answer.
  static constexpr std::chrono::seconds patience{2};

  /// Takes the addresses; nobody can connect before `start`. Throws std::runtime_error when one can't be had. All that
  /// is passed must outlive it.
  admin_endpoint(boost::asio::io_context& admin, std::deque<shard_thread>& shards, const settings& settings,
                 reloader reload, std::function<daemon_vitals()> vitals);

  /// Once all shards serve. Throws std::runtime_error.
  void start();
  /// From now on /readyz says that the daemon drains; the rest goes on.
  void drain() { api_.set(daemon_state::draining); }
  /// These hold from now on: hang_timeout.
  void adopt(const settings& settings) { api_.set_patience(settings.stream_pool.hang_timeout / 2); }
  /// Finishes the answers that are being made and calls `done`, within a second.
  void stop(std::function<void()> done) { server_.stop(std::move(done)); }
  /// Every reload, by HTTP or by signal.
  void count_reload(const reload_outcome& made) { metrics_.count_reload(made); }

  /// As bound; empty when there is none.
  [[nodiscard]] std::vector<std::string> addresses() const { return server_.addresses(); }

 private:
  std::deque<shard_thread>& shards_;
  shard_query shard_query_;
  shard_reports reports_;
  trace_collector traces_;
  metrics metrics_;
  api api_;
  http_server server_;
};

}  // namespace penstock
