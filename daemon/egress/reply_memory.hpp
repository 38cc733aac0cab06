#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <zmq.hpp>

#include "daemon/memory/memory_budget.hpp"
#include "daemon/settings/client_memory.hpp"

namespace penstock {

/// The bytes of a shard's replies that ZeroMQ, a queue or a cache holds, by client, taken from the daemon's budget. A
/// part gives its own back when the last holder lets go of it, which is one of ZeroMQ's threads as a rule. Parts may
/// outlive this object and their client's. Thread: the shard.
///
/// Parts of less than `least_bytes` are not counted one by one: their number is bounded, and the client's grant has
/// room for that many.
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
    std::atomic<account*> client{nullptr};  // set last: who lets go of it sees the rest
    store* home = nullptr;
    part* next = nullptr;

    static void let_go(void* data, void* hint) noexcept;
  };

 public:
  /// One client's.
  class of_client {
   public:
    explicit of_client(reply_memory& from);
    of_client(const of_client&) = delete;
    of_client& operator=(const of_client&) = delete;
    ~of_client();

    /// Whether so much more may be held. A client may have an eighth of what is left, so that clients that do not read
    /// leave room for those that do, however many they are.
    [[nodiscard]] bool has_room(std::size_t bytes) const noexcept;
    /// The same message, counted. Throws std::bad_alloc.
    [[nodiscard]] zmq::message_t hold(zmq::message_t&& message);
    [[nodiscard]] std::size_t held() const noexcept { return account_->held.load(std::memory_order_relaxed); }

   private:
    reply_memory& from_;
    account* account_;
  };

  explicit reply_memory(memory_budget& from);
  reply_memory(const reply_memory&) = delete;
  reply_memory& operator=(const reply_memory&) = delete;
  ~reply_memory();

 private:
  /// Parts that are held and those that can be used again, which come back from any thread.
  struct store {
    explicit store(memory_budget& from) : budget(from) {}
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
