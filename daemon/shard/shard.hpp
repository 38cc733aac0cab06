#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
#include "daemon/memory/memory_budget.hpp"
#include "daemon/request/ledger.hpp"
#include "daemon/request/session_table.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/ring/state_pool.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shard/dispatcher.hpp"
#include "daemon/shard/handler_memory.hpp"
#include "daemon/shard/reception.hpp"
#include "daemon/shard/served_pipelines.hpp"
#include "daemon/shard/shard_change.hpp"
#include "daemon/shard/shard_directory.hpp"
#include "daemon/shard/shard_pulse.hpp"
#include "daemon/shard/shard_report.hpp"
#include "daemon/timeline/recorder.hpp"
#include "daemon/timeline/timeline_page.hpp"
#include "daemon/wheel/wheel.hpp"

namespace penstock {

/// How a shard's run ended.
enum class shard_ending {
  drained,        ///< everything in flight was finished and answered
  cut_short,      ///< the drain timeout or a second stop came first: what was in flight was answered SHUTDOWN
  out_of_memory,  ///< an allocation failed: what was in flight was answered FAILED
  device_lost,    ///< the device failed or hung: what was in flight was answered FAILED
};

/// One thread, one io_context, one ROUTER socket, one ring, one wheel, on one device. Shards share nothing.
///
/// Made and run by one thread each; only `stop` and `ask` may be called from others. Everything that it needs is
/// allocated and every kernel has been launched once when the constructor returns.
class shard {
 public:
  /// Throws device_error, or std::runtime_error when an endpoint can't be bound. The plans must outlive it, and the
  /// keys that clients must have; without them, none are asked for. The memory, which all shards of a daemon share,
  /// must outlive it too. `tell` is told of each pipeline that is run for the first time, while this lasts.
  shard(const settings& how, device& on, std::span<const plan> plans, memory_budget& memory, std::uint32_t number = 0,
        const keyring* keys = nullptr, const std::function<void(const std::string&)>& tell = {});
  /// Once the device has done what it still has: it may use payloads.
  ~shard() { wheel_.close(); }
  shard(const shard&) = delete;
  shard& operator=(const shard&) = delete;

  /// Before `run`: the other shards, whom clients are told of; who keeps the memory that clients share, if they may;
  /// and which configuration this is.
  void join(shard_directory& among, arena_keeper* keeper, const configuration_report& configuration);
  /// As reception::admit_arena and evict_arena, on the shard's thread.
  [[nodiscard]] bool admit_arena(const arena_order& by, client_arena& what) { return reception_.admit_arena(by, what); }
  void evict_arena(std::uint32_t number) { reception_.evict_arena(number); }
  /// Serves until `stop` has been called and what is in flight is answered, or until the device is lost.
  shard_ending run();
  /// Any thread. The first call drains, a second one ends the drain.
  void stop();
  /// Any thread: calls `question` on the shard's thread, between two turns. Never, when the shard has ended by then.
  void ask(std::function<void(shard&)> question);

  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept { return socket_.endpoints(); }
  /// Another configuration, in two steps, so that all shards take it or none: whether it can be taken ("" or why not),
  /// and then, unless it is dropped again, that it holds from the next message on. What is in flight is finished on
  /// the plan that it began with; sessions of a pipeline that changed are lost.
  /// `change` is taken only when it can be.
  [[nodiscard]] std::string prepare(shard_change& change);
  /// False when there is no change of that attempt.
  [[nodiscard]] bool commit(std::uint64_t attempt);
  /// The change of that attempt, if there is one, to be destroyed elsewhere.
  [[nodiscard]] std::optional<shard_change> drop_change(std::uint64_t attempt);
  /// Plans that were replaced and that nothing refers to any more, to be destroyed on another thread: a device may make
  /// whoever frees memory wait. And how many are still referred to.
  struct leftovers {
    std::vector<fresh_pipeline> done;
    std::size_t in_use = 0;
  };
  [[nodiscard]] leftovers take_leftovers();

  /// As router_socket says. Threads: any.
  [[nodiscard]] std::uint64_t gatekeeper_rounds() const noexcept { return socket_.gatekeeper_rounds(); }
  /// Of each slot, for as long as the shard lives. Threads: any.
  [[nodiscard]] const slot_size& slot_bytes() const noexcept { return ring_.slot_bytes(); }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] shard_report report();
  [[nodiscard]] shard_pulse pulse() const;
  /// The next batches that it remembers, from this cursor on, as TRACE says them.
  [[nodiscard]] timeline_page trace(std::uint64_t cursor);

 private:
  enum class state : std::uint8_t { serving, draining, parting, ended };

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
  void look_after_memory(time_point now);
  void check_end(time_point now);
  [[nodiscard]] time_point next_end() const noexcept;
  void begin_drain();
  void stay_quiet(time_point now);
  void end_with_loss(time_point now);
  void end_without_memory(time_point now);
  void go_round();
  void begin_parting(time_point now);
  [[nodiscard]] bool part(time_point now);
  void warm_up(const std::function<void(const std::string&)>& tell);
  void serve(fresh_pipeline fresh, const std::string& reload);
  void retire(const plan& replaced, const std::string& why);

  struct pending_change {
    shard_change what;
    std::vector<std::string> welcomes;
  };

  // The order is the order of destruction, last first: ZeroMQ's threads and the device's still use what stands above.
  settings how_;
  device& device_;
  memory_budget& memory_;
  std::vector<std::unique_ptr<plan>> adopted_;  // that came by a change
  served_pipelines served_;
  std::uint32_t next_place_;
  std::vector<const plan*> retiring_;  // replaced, and not yet out of use
  std::optional<pending_change> pending_;
  configuration_report configuration_;
  const arena_keeper* keeper_ = nullptr;
  const shard_directory* among_ = nullptr;
  std::uint32_t number_;
  std::string instance_;
  time_point started_;
  wake_signal signal_;
  completion_queue completed_{signal_};
  message_store received_;
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

  handler_memory waits_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  descriptor_watch socket_watch_{boost::asio::posix::stream_descriptor(io_)};
  descriptor_watch signal_watch_{boost::asio::posix::stream_descriptor(io_)};
  boost::asio::steady_timer timer_{io_};
  time_point timer_at_ = never;
  time_point sweep_at_;
  std::uint64_t swept_bytes_ = 0;  // payload_bytes_in, at the last sweep
  time_point drain_until_ = never;
  time_point quiet_at_ = never;
  time_point idle_since_ = never;  // in a drain
  time_point part_until_ = never;
  std::uint32_t busy_turns_ = 0;
  time_point spin_until_ = time_point::min();
  state state_ = state::serving;
  shard_ending ending_ = shard_ending::drained;
};

}  // namespace penstock
