#pragma once

#include <deque>
#include <optional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/admin/shard_thread.hpp"
#include "daemon/device/backend.hpp"
#include "daemon/exit_code.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shard/shard_directory.hpp"

namespace penstock {

/// The daemon around its shards: opens the devices, starts a thread for each shard, and runs the admin loop (signals)
/// on the calling thread until every shard has ended. When one ends by itself, the others are stopped.
class service {
 public:
  explicit service(settings how);

  /// Serves until SIGTERM or SIGINT (the first drains, a second ends the drain) or until a device is lost.
  /// Throws device_error, configuration_error or std::runtime_error when it can't start.
  [[nodiscard]] exit_code run();

 private:
  void start_shards();
  void serve();
  void watch_signals();
  void stop_all();
  void note_ending();
  [[nodiscard]] exit_code outcome() const;

  settings how_;
  boost::asio::io_context admin_{1};
  boost::asio::signal_set signals_{admin_};
  boost::asio::steady_timer patience_{admin_};
  bool stopping_ = false;
  std::optional<shard_directory> directory_;
  std::vector<opened_device> devices_;
  std::deque<shard_thread> shards_;
};

}  // namespace penstock
