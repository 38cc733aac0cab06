#pragma once

#include <chrono>
#include <cstddef>
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

#include "base/memory_budget.hpp"
#include "daemon/batch/completion_queue.hpp"
#include "daemon/batch/slot_ring.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/device/device.hpp"
#include "daemon/exec/scheduler.hpp"
#include "daemon/exec/session_state.hpp"
#include "daemon/exec/stream_pool.hpp"
#include "daemon/net/client_registry.hpp"
#include "daemon/net/message_handler.hpp"
#include "daemon/net/message_reader.hpp"
#include "daemon/net/reply_sender.hpp"
#include "daemon/net/shard_directory.hpp"
#include "daemon/net/subscriptions.hpp"
#include "daemon/pipeline/plan.hpp"
#include "daemon/request/payload_store.hpp"
#include "daemon/request/request_tracker.hpp"
#include "daemon/request/sessions.hpp"
#include "daemon/request/tuning.hpp"
#include "daemon/shard/handler_memory.hpp"
#include "daemon/shard/shard_change.hpp"
#include "daemon/telemetry/recorder.hpp"
#include "daemon/telemetry/report.hpp"
#include "daemon/telemetry/timeline.hpp"

namespace penstock {

/// A short report of a shard; cheap enough for several times a second.
struct shard_pulse {
  /// How long the device has had work without finishing a batch; 0 while it has none.
  std::chrono::nanoseconds standing_still{};
  std::uint64_t results = 0;    ///< since the start
  std::uint64_t in_flight = 0;  ///< requests
  std::size_t clients = 0;
  std::size_t pipelines = 0;  ///< that are served
};

/// How a shard's run ended.
enum class shard_ending {
  drained,        ///< everything in flight was finished and answered
  cut_short,      ///< the drain timeout or a second stop came first: what was in flight was answered SHUTDOWN
  out_of_memory,  ///< an allocation failed: what was in flight was answered FAILED
  device_lost,    ///< the device failed or hung: what was in flight was answered DEVICE_FAILED
};

/// The step of a start in which a pipeline is run for the first time, for people.
[[nodiscard]] std::string first_run_text(const std::string& pipeline);

/// One thread that serves: an io_context, a ROUTER socket, a slot ring and a stream pool on one device. It owns the
/// parts of the path, and runs their loop, shutdown and reload. Shards share the memory budget, the keyring and the
/// directory.
///
/// Thread: the one that runs it; `stop` and `ask` may be called from any. When the constructor returns, everything is
/// allocated and every kernel has been launched once.
class shard {
 public:
  /// `plans`, `memory` and `keys` must outlive the shard, which moves plans out that are replaced; without `keys`,
  /// clients need none. `progress` is called with a text for people before each pipeline is run for the first time.
  /// Throws device_error, or std::runtime_error if an endpoint can't be bound.
  shard(const settings& settings, device& device, std::span<plan> plans, memory_budget& memory,
        std::uint32_t number = 0, const keyring* keys = nullptr,
        const std::function<void(const std::string&)>& progress = {});
  /// Waits for the device, which may still use payloads.
  ~shard() { stream_pool_.close(); }
  shard(const shard&) = delete;
  shard& operator=(const shard&) = delete;

  /// Call it before `run`. `server`: of shared memory, or nullptr. `configuration`: what the shard serves. `sources`:
  /// where those of the daemon tell of themselves, and `sinks`.
  void join(shard_directory& directory, shm_server* server, const configuration_report& configuration,
            source_board* sources = nullptr, sink_board* sinks = nullptr);
  /// As client_registry::admit_arena and evict_arena.
  [[nodiscard]] bool admit_arena(const arena_order& order, client_arena& arena) {
    return registry_.admit_arena(order, arena);
  }
  void evict_arena(std::uint32_t number) { registry_.evict_arena(number); }
  /// Serves until `stop` was called and everything in flight is answered, or until the device is lost.
  shard_ending run();
  /// Any thread. The first call drains, a second one ends the drain.
  void stop();
  /// Any thread: calls `question` on the shard's thread between two turns; never if the shard has ended by then.
  void ask(std::function<void(shard&)> question);

  /// Once `run` has ended with device_lost.
  [[nodiscard]] const std::optional<device_loss>& loss() const noexcept { return scheduler_.lost(); }

  [[nodiscard]] const std::vector<std::string>& endpoints() const noexcept { return socket_.endpoints(); }
  /// A reload takes two steps, so that all shards take the change or none. `prepare` returns "" if this shard can take
  /// it, and then moves `change` in; else it returns the reason.
  [[nodiscard]] std::string prepare(shard_change& change);
  /// Applies the prepared change from the next message on; false if there is none of that attempt. Requests in flight
  /// keep the plan that they began with; sessions of a changed pipeline are lost.
  [[nodiscard]] bool commit(std::uint64_t attempt);
  /// Moves out the prepared change of that attempt, if there is one. Destroy it on another thread.
  [[nodiscard]] std::optional<shard_change> drop_change(std::uint64_t attempt);
  /// Replaced plans that are out of use, with their states, and the number of those still in use. Destroy them on
  /// another thread: freeing device memory may block.
  struct leftovers {
    std::vector<fresh_pipeline> done;
    std::size_t in_use = 0;
  };
  [[nodiscard]] leftovers take_leftovers();

  /// What holds of a pipeline's tunable numbers, or why it was not changed.
  struct numbers_outcome {
    std::string refused{};  ///< "" if it was not
    std::vector<wire::number_report> values{};
  };
  /// Sets tunable numbers of a pipeline, as tuning::set does; tells of them if none are wanted.
  [[nodiscard]] numbers_outcome set_numbers(const std::string& pipeline, std::span<const wire::number_setting> wanted,
                                            bool everywhere);

  /// A zmq::context_t in which clients of this process connect to router_socket::inner_endpoint. The
  /// shard's end waits until they are gone, and tells sources and sinks to go. Any thread.
  [[nodiscard]] void* inner_context() noexcept { return &socket_.context(); }
  /// As router_socket::zap_rounds. Any thread.
  [[nodiscard]] std::uint64_t zap_rounds() const noexcept { return socket_.zap_rounds(); }
  /// The size of each slot; constant. Any thread.
  [[nodiscard]] const slot_size& slot_bytes() const noexcept { return ring_.slot_bytes(); }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] shard_report report();
  [[nodiscard]] shard_pulse pulse() const;
  /// A page of TRACE: the batches that the shard remembers, from this cursor on.
  [[nodiscard]] timeline_page trace(std::uint64_t cursor);

 private:
  enum class state : std::uint8_t { serving, draining, parting, ended };

  // A descriptor that ends the sleep when it becomes readable.
  struct descriptor_watch {
    boost::asio::posix::stream_descriptor descriptor;
    bool set = false;
  };

  [[nodiscard]] bool turn(time_point now);
  void sleep(time_point now);
  void watch(descriptor_watch& watch);
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
  void warm_up(const std::function<void(const std::string&)>& progress);
  void serve(fresh_pipeline fresh, const std::string& reload);
  void retire(const plan& replaced, const std::string& why);

  struct pending_change {
    shard_change change;
    std::vector<std::string> welcomes;
  };

  // Destroyed in reverse order: ZeroMQ's threads and the device still use the members above theirs.
  settings settings_;
  device& device_;
  memory_budget& memory_;
  std::vector<std::unique_ptr<plan>> adopted_;  // by reloads
  served_pipelines served_;
  std::uint32_t next_place_;
  const std::span<plan> first_plans_;  // of the start
  std::vector<const plan*> retiring_;  // replaced, and still in use
  std::optional<pending_change> pending_;
  configuration_report configuration_;
  const shm_server* shm_server_ = nullptr;
  const shard_directory* directory_ = nullptr;
  source_board* sources_ = nullptr;
  sink_board* sinks_ = nullptr;
  std::uint32_t number_;
  std::string instance_;
  time_point started_;
  wake_event signal_;
  completion_queue completed_{signal_};
  payload_store payloads_;
  slot_ring ring_;
  state_pool states_;
  clock_pool clocks_;
  stream_pool stream_pool_;
  recorder recorder_;
  timeline_pages pages_;
  memory_budget queued_{SIZE_MAX};  // only counts: the queues' memory is granted
  router_socket socket_;
  account counters_;
  client_table clients_;
  session_table sessions_;
  tuning tuning_{sessions_};
  message_reader message_reader_;
  subscriptions subscriptions_;
  reply_sender reply_sender_;
  request_tracker tracker_;
  scheduler scheduler_;
  client_registry registry_;
  message_handler message_handler_;

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
