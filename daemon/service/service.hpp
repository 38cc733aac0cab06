#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/exit_code.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/live/sink_set.hpp"
#include "daemon/live/source_set.hpp"
#include "daemon/net/keys.hpp"
#include "daemon/net/shard_directory.hpp"
#include "daemon/service/connection_watch.hpp"
#include "daemon/service/http_routes.hpp"
#include "daemon/service/quarantine.hpp"
#include "daemon/service/reload.hpp"
#include "daemon/service/self_probe.hpp"
#include "daemon/service/shard_thread.hpp"
#include "daemon/service/systemd.hpp"
#include "daemon/telemetry/sink_board.hpp"
#include "daemon/telemetry/source_board.hpp"

namespace penstock {

/// The daemon around its shards: opens the devices, starts a thread for each shard, and runs the admin loop (signals,
/// HTTP) on the calling thread until every shard has ended. When one ends by itself, the others are stopped.
class service {
 public:
  /// `read` reads the configuration again, for a reload; on another thread.
  service(settings configuration, std::function<settings()> read);
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  /// Serves until SIGTERM or SIGINT (the first drains, a second ends the drain) or until a device is lost.
  /// Throws device_error, configuration_error or std::runtime_error when it can't start.
  [[nodiscard]] exit_code run();

 private:
  void start_shards();
  [[nodiscard]] compile_options compile();
  void wait_for(shard_thread& shard);
  void end_if_told();
  void serve();
  void probe_threads();
  [[nodiscard]] daemon_vitals vitals();
  [[nodiscard]] bool run_admin();
  void drain_without_memory() noexcept;
  void watch_signals();
  void start_sources();
  void stop_all();
  void stop_shards();
  void stop_shards_behind_sources(std::chrono::steady_clock::time_point end);
  void note_ending();
  void look_after_memory();
  void reload(live_configuration::callback done);
  [[nodiscard]] exit_code outcome() const;

  void blame_first_run(const std::string& step);
  void note_loss(const shard_thread& ended);
  void acquit_later();
  void watch_reload();

  // A reload's thread may still have it when the service is gone.
  std::shared_ptr<quarantine> quarantine_ = std::make_shared<quarantine>(quarantine::default_folder());
  settings settings_;
  settings fitted_;  // to this machine: the shards were started with it
  std::function<settings()> read_;
  service_manager manager_;
  bool stopping_ = false;
  bool hung_ = false;            // it stops because a first run does not end
  bool without_memory_ = false;  // it stops because an allocation failed
  std::optional<keyring> keys_;  // where connections need keys
  // Declared before the loop: its handlers may hold memory of theirs.
  std::optional<memory_budget> memory_;  // for all that peers make the daemon hold
  std::vector<opened_device> devices_;
  boost::asio::io_context admin_{1};
  boost::asio::signal_set signals_{admin_};
  boost::asio::steady_timer patience_{admin_};
  boost::asio::steady_timer next_look_at_memory_{admin_};
  boost::asio::steady_timer next_acquittal_{admin_};
  boost::asio::steady_timer next_look_at_reload_{admin_};
  boost::asio::steady_timer next_look_at_sources_{admin_};
  std::vector<std::string> worked_;  // pipelines that had batches done before the last acquittal
  std::optional<shard_directory> directory_;
  std::optional<shard_arena_registry> registry_;
  std::optional<shm_server> shm_server_;  // where clients may share memory, in which requests lie until the shards end
  source_board sources_board_;            // shards read them
  sink_board sinks_board_;
  live::source_gates gates_;
  start_progress progress_;
  std::string slow_step_;  // of the start, that was last logged
  std::deque<shard_thread> shards_;
  shard_query shard_query_{admin_, shards_};
  std::optional<admin_endpoint> endpoint_;
  std::optional<live_configuration> configuration_;
  std::optional<live::sink_set> sinks_;          // clients of the shards
  std::optional<live::source_set> sources_;      // and these
  std::optional<connection_watch> connections_;  // and these:
  std::optional<self_probe> probe_;
  std::optional<heartbeat> heartbeat_;  // once the shards serve
};

}  // namespace penstock
