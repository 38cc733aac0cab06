#pragma once

#include <memory>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "daemon/exit_code.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shard/shard.hpp"

namespace penstock {

/// The daemon around its shard: opens the device, compiles the plans, starts the shard's thread, and runs the admin
/// loop (signals) on the calling thread until the shard has ended.
class service {
 public:
  explicit service(settings how);

  /// Serves until SIGTERM or SIGINT (the first drains, a second ends the drain) or until the device is lost.
  /// Throws device_error, configuration_error or std::runtime_error when it can't start.
  [[nodiscard]] exit_code run();

 private:
  void open();
  void watch_signals(shard& running);

  settings how_;
  std::unique_ptr<device> device_;
  std::vector<plan> plans_;
  boost::asio::io_context admin_{1};
  boost::asio::signal_set signals_{admin_};
};

}  // namespace penstock
