#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/config/settings.hpp"
#include "daemon/device/device.hpp"
#include "daemon/net/shard_directory.hpp"
#include "daemon/service/start.hpp"
#include "daemon/shard/shard.hpp"
#include "daemon/shm/server.hpp"

namespace penstock {

/// Binds the calling thread to the processors next to a PCI device, and the memory that it allocates from now on to the
/// memory next to it: a GPU reads pinned memory there at full speed. Call before anything is allocated.
///
/// Returns a few words for the log: "near 0000:1b:00.0, NUMA node 0"; "" when nothing was changed: the machine has one
/// NUMA node, or does not tell where the device is.
[[nodiscard]] std::string stay_near(const std::string& pci_bus_id);

/// A shard and the thread that makes, runs and destroys it, near its device. The shard is made on its own thread
/// because the device's per-thread state, its pinned memory and the plans' operations belong there. Members: the
/// admin's thread.
class shard_thread {
 public:
  /// Begins to make the shard. `settings.daemon.listen` is the shard's own; `keys`, which must live longer, are those
  /// that clients need, if any; `progress` outlives it; `ended` is called on its thread once it has stopped serving, or
  /// failed.
  shard_thread(std::uint32_t number, settings settings, device& device, memory_budget& memory, const keyring* keys,
               start_progress& progress, std::function<void()> ended, compile_options code = {});
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
  /// Once all shards are made, before any serves. Throws configuration_error, as client_registry::join does.
  void join_directory(shard_directory& directory, shm_server* shm, const configuration_report& configuration,
                      source_board* sources = nullptr, sink_board* sinks = nullptr);
  void serve();
  /// Of the shard, once it is made.
  [[nodiscard]] const slot_size& slot_bytes() const noexcept { return shard_->slot_bytes(); }
  /// The first call drains, a second one ends the drain.
  void stop();
  /// As shard::inner_context, once it is made.
  [[nodiscard]] void* inner_context() noexcept { return shard_->inner_context(); }
  /// Of its zap handler, once it is made.
  [[nodiscard]] std::uint64_t zap_rounds() const noexcept { return shard_->zap_rounds(); }
  /// Calls `question` on the shard's thread, between two turns; never, once it has ended. It must be serving.
  void ask(std::function<void(shard&)> question);
  /// Whether `ended` has been called.
  [[nodiscard]] bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  [[nodiscard]] bool lost_its_device() const noexcept;
  /// What it lost, if it did.
  [[nodiscard]] device_loss loss() const { return *shard_->loss(); }
  /// Once it has ended: how. Rethrows what it failed with.
  [[nodiscard]] shard_ending ending() const;
  /// Blocks until the shard is destroyed and the thread has ended.
  void join();

 private:
  void run(std::uint32_t number, const settings& settings, device& device, memory_budget& memory, const keyring* keys,
           start_progress& progress, compile_options code);
  void serve_until_the_end(shard& running);

  std::promise<shard*> made_;
  std::future<shard*> made_in_future_ = made_.get_future();
  std::promise<shard_directory*> may_serve_;
  std::promise<void> let_go_;
  std::function<void()> tell_ended_;
  shard* shard_ = nullptr;
  shard_directory* directory_ = nullptr;
  bool told_to_serve_ = false;
  std::atomic<bool> ended_{false};  // written by the shard's thread, behind the two that follow
  shard_ending ending_ = shard_ending::drained;
  std::exception_ptr failure_;
  std::thread thread_;
};

/// Asks every shard the same question, each on its own thread, and brings the answers to the admin's. Members: the
/// admin's thread.
class shard_query {
 public:
  shard_query(boost::asio::io_context& admin, std::deque<shard_thread>& shards) : admin_(admin), shards_(shards) {}

  /// Calls `done` once, on the admin's thread: when all have answered, or after `patience`. The answers stand by
  /// shard; one that did not come in time, or whose shard has ended, is missing.
  template <typename Answer>
  void ask(std::chrono::nanoseconds patience, std::function<Answer(shard&)> question,
           std::function<void(std::vector<std::optional<Answer>>)> done) {
    const auto collected = std::make_shared<collection<Answer>>(admin_, shards_.size(), std::move(done));
    collected->patience.expires_after(patience);
    collected->patience.async_wait([collected](const boost::system::error_code&) { collected->finish(); });
    for (std::size_t number = 0; number < shards_.size(); ++number) {
      shards_[number].ask([collected, question, number, &admin = admin_](shard& shard) {
        boost::asio::post(admin, [collected, number, answer = question(shard)]() mutable {
          collected->take(number, std::move(answer));
        });
      });
    }
  }

 private:
  template <typename Answer>
  struct collection {
    collection(boost::asio::io_context& admin, std::size_t shards,
               std::function<void(std::vector<std::optional<Answer>>)> call)
        : patience(admin), answers(shards), missing(shards), done(std::move(call)) {}

    void take(std::size_t number, Answer answer) {
      answers[number] = std::move(answer);
      if (--missing == 0) {
        patience.cancel();
      }
    }
    // The timer's end, by time or by cancelling: it comes once.
    void finish() {
      if (done) {
        std::exchange(done, nullptr)(std::exchange(answers, std::vector<std::optional<Answer>>(answers.size())));
      }
    }

    boost::asio::steady_timer patience;
    std::vector<std::optional<Answer>> answers;
    std::size_t missing;
    std::function<void(std::vector<std::optional<Answer>>)> done;
  };

  boost::asio::io_context& admin_;
  std::deque<shard_thread>& shards_;
};

/// The shards as the shared memory's server knows them: their clients get its memory. Thread: the server's.
class shard_arena_registry final : public arena_registry {
 public:
  /// `devices`: by shard.
  shard_arena_registry(std::deque<shard_thread>& shards, std::vector<device*> devices)
      : shards_(shards), devices_(std::move(devices)) {}

  [[nodiscard]] device& device_of(std::uint32_t shard) override { return *devices_[shard]; }
  void admit(const arena_order& order, client_arena& arena, std::function<void(bool)> done) override {
    shards_[order.shard].ask(
        [order, &arena, done = std::move(done)](shard& shard) { done(shard.admit_arena(order, arena)); });
  }
  void evict(std::uint32_t number, std::uint32_t arena) override {
    shards_[number].ask([arena](shard& shard) { shard.evict_arena(arena); });
  }

 private:
  std::deque<shard_thread>& shards_;
  std::vector<device*> devices_;
};

}  // namespace penstock
