#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/admin/connection_watch.hpp"
#include "daemon/admin/descriptor_shortage.hpp"
#include "daemon/admin/heartbeat.hpp"
#include "daemon/admin/http/admin_endpoint.hpp"
#include "daemon/admin/interrupt_watch.hpp"
#include "daemon/admin/live_configuration.hpp"
#include "daemon/admin/self_probe.hpp"
#include "daemon/admin/service_manager.hpp"
#include "daemon/admin/shard_tenants.hpp"
#include "daemon/admin/shard_thread.hpp"
#include "daemon/admin/start_progress.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/exit_code.hpp"
#include "daemon/security/keyring.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shard/shard_directory.hpp"

namespace penstock {

/// The daemon around its shards: opens the devices, starts a thread for each shard, and runs the admin loop (signals,
/// HTTP) on the calling thread until every shard has ended. When one ends by itself, the others are stopped.
class service {
 public:
  /// `read` reads the configuration again, for a reload; on another thread.
  service(settings how, std::function<settings()> read);
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  /// Serves until SIGTERM or SIGINT (the first drains, a second ends the drain) or until a device is lost.
  /// Throws device_error, configuration_error or std::runtime_error when it can't start.
  [[nodiscard]] exit_code run();

 private:
  void start_shards();
  void wait_for(shard_thread& made);
  void serve();
  void probe_threads();
  [[nodiscard]] daemon_vitals vitals();
  [[nodiscard]] bool run_admin();
  void drain_without_memory() noexcept;
  void watch_signals();
  void stop_all();
  void note_ending();
  void look_after_memory();
  void reload(live_configuration::callback done);
  [[nodiscard]] exit_code outcome() const;

  settings how_;
  settings fitted_;  // to this machine: what the shards were started with
  std::function<settings()> read_;
  service_manager manager_;
  bool stopping_ = false;
  bool without_memory_ = false;  // it stops because an allocation failed
  std::optional<keyring> keys_;  // where connections need keys
  // Before the loop: what waits in it may hold memory of theirs.
  std::optional<memory_budget> memory_;  // of all that peers make the daemon hold
  std::vector<opened_device> devices_;
  boost::asio::io_context admin_{1};
  boost::asio::signal_set signals_{admin_};
  boost::asio::steady_timer patience_{admin_};
  boost::asio::steady_timer next_look_at_memory_{admin_};
  std::optional<shard_directory> directory_;
  std::optional<shard_tenants> tenants_;
  std::optional<arena_keeper> keeper_;  // where clients may share memory, in which requests lie until the shards end
  start_progress progress_;
  std::string slow_step_;  // of the start, that was last logged
  std::deque<shard_thread> shards_;
  std::optional<admin_endpoint> endpoint_;
  std::optional<live_configuration> configuration_;
  std::optional<descriptor_shortage> shortage_;  // and these:
  std::optional<connection_watch> connections_;
  std::optional<self_probe> probe_;
  std::optional<heartbeat> heartbeat_;  // once the shards serve
  std::optional<interrupt_watch> interrupts_;
};

}  // namespace penstock
