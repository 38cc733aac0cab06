#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "daemon/admin/http/daemon_state.hpp"
#include "daemon/admin/http/health.hpp"
#include "daemon/admin/http/http_message.hpp"
#include "daemon/admin/http/metrics.hpp"
#include "daemon/admin/http/shard_reports.hpp"
#include "daemon/admin/http/trace_collector.hpp"
#include "daemon/admin/reload_outcome.hpp"

namespace penstock {

/// Reads the configuration again and calls what it is given once, at once or later, on the admin's thread.
using reloader = std::function<void(std::function<void(reload_outcome)>)>;

/// What each path of the admin endpoint answers. Thread: the admin's.
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
  };

  explicit api(parts of);

  void set(daemon_state state) noexcept { state_ = state; }
  void set_patience(std::chrono::nanoseconds wanted) noexcept { of_.patience = wanted; }
  /// Calls `done` once.
  void answer(const http_request& asked, std::function<void(http_reply)> done);

 private:
  using replier = std::function<void(http_reply)>;
  using route = void (api::*)(const http_request&, replier);

  [[nodiscard]] daemon_vitals vitals() const { return of_.vitals ? of_.vitals() : daemon_vitals{}; }
  void live(const http_request& asked, replier done);
  void ready(const http_request& asked, replier done);
  void scrape(const http_request& asked, replier done);
  void status(const http_request& asked, replier done);
  void trace(const http_request& asked, replier done);
  void reload(const http_request& asked, replier done);

  parts of_;
  daemon_state state_ = daemon_state::starting;
  time_point started_at_;
  std::chrono::system_clock::time_point started_;
  bool reloading_ = false;
};

}  // namespace penstock
