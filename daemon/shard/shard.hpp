#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/completion/completion.hpp"
#include "daemon/egress/egress.hpp"
#include "daemon/ingress/ingress.hpp"
#include "daemon/request/ledger.hpp"
#include "daemon/request/session_table.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/ring/state_pool.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shard/dispatcher.hpp"
#include "daemon/shard/reception.hpp"
#include "daemon/shard/shard_directory.hpp"
#include "daemon/shard/shard_report.hpp"
#include "daemon/timeline/recorder.hpp"
#include "daemon/timeline/timeline_page.hpp"
#include "daemon/wheel/wheel.hpp"

namespace penstock {

/// How a shard's run ended.
enum class shard_ending {
  drained,      ///< everything in flight was finished and answered
  cut_short,    ///< the drain timeout or a second stop came first: what was in flight was answered SHUTDOWN
  device_lost,  ///< the device failed or hung: what was in flight was answered FAILED
};

/// One thread, one io_context, one ROUTER socket, one ring, one wheel, on one device. Shards share nothing.
///
/// Made and run by one thread each; only `stop` and `ask` may be called from others. Everything that it needs is
/// allocated and every kernel has been launched once when the constructor returns.
class shard {
 public:
  /// Throws device_error, or std::runtime_error when an endpoint can't be bound. The plans must outlive it.
  shard(const settings& how, device& on, std::span<const plan> plans, std::uint32_t number = 0);
  ~shard() = default;
  shard(const shard&) = delete;
  shard& operator=(const shard&) = delete;

  /// Before `run`, where there are several shards: whom clients are told of.
  void join(shard_directory& among) { reception_.join(among); }
  /// Serves until `stop` has been called and what is in flight is answered, or until the device is lost.
  shard_ending run();
  /// Any thread. The first call drains, a second one ends the drain.
  void stop();
  /// Any thread: calls `question` on the shard's thread, between two turns. Never, when the shard has ended by then.
  void ask(std::function<void(shard&)> question);

  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept { return socket_.endpoints(); }
  [[nodiscard]] shard_report report() const;
  /// The next batches that it remembers, from this cursor on, as TRACE says them.
  [[nodiscard]] timeline_page trace(std::uint64_t cursor);

 private:
  enum class state : std::uint8_t { serving, draining, ended };

  // A descriptor that ends the sleep when it is readable.
  struct descriptor_watch {
    boost::asio::posix::stream_descriptor descriptor;
    bool set = false;
  };

  [[nodiscard]] bool turn(time_point now);
  void sleep(time_point now);
  void watch(descriptor_watch& which);
  void expire(time_point now);
  void sweep(time_point now);
  void check_end(time_point now);
  [[nodiscard]] time_point next_end() const noexcept;
  void begin_drain();
  void end_with_loss();
  void warm_up();

  // The order is the order of destruction, last first: ZeroMQ's threads and the device's still use what stands above.
  settings how_;
  device& device_;
  std::span<const plan> plans_;
  std::uint32_t number_;
  std::string instance_;
  time_point started_;
  wake_signal signal_;
  completion_queue completed_{signal_};
  ring ring_;
  state_pool states_;
  clock_pool clocks_;
  wheel wheel_;
  recorder timeline_;
  timeline_pages pages_;
  router_socket socket_;
  account counters_;
  client_table clients_;
  session_table sessions_;
  ingress ingress_;
  egress egress_;
  ledger book_;
  dispatcher dispatcher_;
  reception reception_;

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  descriptor_watch socket_watch_{boost::asio::posix::stream_descriptor(io_)};
  descriptor_watch signal_watch_{boost::asio::posix::stream_descriptor(io_)};
  boost::asio::steady_timer timer_{io_};
  time_point timer_at_ = never;
  time_point sweep_at_;
  time_point drain_until_ = never;
  time_point quiet_at_ = never;
  std::uint32_t busy_turns_ = 0;
  state state_ = state::serving;
  shard_ending ending_ = shard_ending::drained;
};

}  // namespace penstock
