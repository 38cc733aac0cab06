#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <zmq.hpp>

#include "base/memory_budget.hpp"
#include "daemon/config/client_memory.hpp"

namespace penstock {

/// Charges the replies that ZeroMQ, a queue or a cache holds to their client and to the daemon's budget. The bytes of a
/// part are given back when its last holder frees it, as a rule on a ZeroMQ thread. Parts may outlive this object and
/// their client. Thread: the shard.
///
/// Parts smaller than `least_bytes` are not counted: their number is bounded, and the client's grant covers them.
class reply_memory {
 public:
  static constexpr std::size_t least_bytes = least_counted_reply_bytes;

 private:
  struct account {
    std::atomic<std::size_t> held{0};
    std::atomic<std::size_t> references{1};

    void drop() noexcept;
  };
  struct store;
  struct part {
    zmq::message_t message;
    std::atomic<account*> client{nullptr};  // set last; publishes the other members
    store* home = nullptr;
    part* next = nullptr;

    static void let_go(void* data, void* hint) noexcept;
  };

 public:
  /// The count of one client.
  class of_client {
   public:
    explicit of_client(reply_memory& memory);
    of_client(const of_client&) = delete;
    of_client& operator=(const of_client&) = delete;
    ~of_client();

    /// Whether the client may hold `bytes` more: in total at most an eighth of what is left of the budget, so that
    /// clients that do not read always leave room for others; or one reply that just fits.
    [[nodiscard]] bool has_room(std::size_t bytes) const noexcept;
    /// Returns the same message, counted. Throws std::bad_alloc.
    [[nodiscard]] zmq::message_t hold(zmq::message_t&& message);
    [[nodiscard]] std::size_t held() const noexcept { return account_->held.load(std::memory_order_relaxed); }

   private:
    reply_memory& memory_;
    account* account_;
  };

  explicit reply_memory(memory_budget& budget);
  reply_memory(const reply_memory&) = delete;
  reply_memory& operator=(const reply_memory&) = delete;
  ~reply_memory();

 private:
  /// All parts: those in use, and the free ones, which any thread returns.
  struct store {
    explicit store(memory_budget& daemon_budget) : budget(daemon_budget) {}
    [[nodiscard]] part& take();
    void put_back(part& unused) noexcept;
    void drop() noexcept;

    memory_budget& budget;
    std::vector<std::unique_ptr<part[]>> all;
    part* unused = nullptr;
    std::atomic<part*> returned{nullptr};
    std::atomic<std::size_t> references{1};
  };

  store* store_;
};

}  // namespace penstock
