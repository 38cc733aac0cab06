#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "daemon/admin/start_progress.hpp"
#include "daemon/device/device.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shard/shard.hpp"
#include "daemon/shard/shard_directory.hpp"

namespace penstock {

/// A shard and the thread that makes, runs and destroys it, near its device. Made on its own thread because the
/// device's per-thread state, its pinned memory and the plans' operations belong there. Members: the admin's thread.
class shard_thread {
 public:
  /// Begins to make the shard. `how.daemon.listen` is the shard's own; `keys`, which must live longer, are those that
  /// clients need, if any; `progress` outlives it; `ended` is called on its thread once it has stopped serving, or
  /// failed.
  shard_thread(std::uint32_t number, settings how, device& on, memory_budget& memory, const keyring* keys,
               start_progress& progress, std::function<void()> ended);
  shard_thread(const shard_thread&) = delete;
  shard_thread& operator=(const shard_thread&) = delete;
  /// Stops it at once if it still serves.
  ~shard_thread();

  /// Whether it is ready to serve, or could not be made; waits for at most so long.
  [[nodiscard]] bool is_made_within(std::chrono::nanoseconds time) {
    return made_in_future_.wait_for(time) == std::future_status::ready;
  }
  /// Blocks until it is ready to serve, then gives its endpoints as bound. Rethrows what kept it from starting.
  [[nodiscard]] std::vector<std::string> wait_until_made();
  /// Once all shards are made, before any serves. Throws configuration_error, as reception::join does.
  void join_directory(shard_directory& among, arena_keeper* keeper, const configuration_report& configuration);
  void serve();
  /// Of the shard, once it is made.
  [[nodiscard]] const slot_size& slot_bytes() const noexcept { return shard_->slot_bytes(); }
  /// The first call drains, a second one ends the drain.
  void stop();
  /// Of its gatekeeper, once it is made.
  [[nodiscard]] std::uint64_t gatekeeper_rounds() const noexcept { return shard_->gatekeeper_rounds(); }
  /// Calls `question` on the shard's thread, between two turns; never, once it has ended. It must be serving.
  void ask(std::function<void(shard&)> question);
  /// Whether `ended` has been called.
  [[nodiscard]] bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  [[nodiscard]] bool lost_its_device() const noexcept;
  /// Once it has ended: how. Rethrows what it failed with.
  [[nodiscard]] shard_ending ending() const;
  /// Blocks until the shard is destroyed and the thread has ended.
  void join();

 private:
  void run(std::uint32_t number, const settings& how, device& on, memory_budget& memory, const keyring* keys,
           start_progress& progress);
  void serve_until_the_end(shard& running);

  std::promise<shard*> made_;
  std::future<shard*> made_in_future_ = made_.get_future();
  std::promise<shard_directory*> may_serve_;
  std::promise<void> let_go_;
  std::function<void()> tell_ended_;
  shard* shard_ = nullptr;
  shard_directory* among_ = nullptr;
  bool told_to_serve_ = false;
  std::atomic<bool> ended_{false};  // written by the shard's thread, behind the two that follow
  shard_ending ending_ = shard_ending::drained;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace penstock
