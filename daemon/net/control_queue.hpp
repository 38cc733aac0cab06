#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "daemon/config/client_memory.hpp"
#include "daemon/net/admission.hpp"
#include "daemon/net/connection_limits.hpp"
#include "daemon/request/request.hpp"
#include "proto/message.hpp"

namespace penstock {

/// The share of a shard's time that control messages may take, and how many of them may wait.
struct control_limits {
  double share = 0.02;  ///< of the shard's time, for each connection
  std::chrono::nanoseconds burst{std::chrono::milliseconds{2}};
  double share_of_all = 0.2;  ///< for all connections together
  std::chrono::nanoseconds burst_of_all{std::chrono::milliseconds{10}};
  std::size_t messages = 1024;  ///< that wait, for each connection: as many as libzmq holds
  std::size_t bytes = std::size_t{384} << 10U;
  std::size_t bytes_of_all = most_waiting_control_bytes;
  std::size_t strangers = 1024;  ///< accounts of connections without a HELLO; more such connections share one
  /// Least pause, while the shard is idle, between two messages of a connection in debt, and between two long answers.
  std::chrono::nanoseconds between_free{std::chrono::microseconds{200}};
  std::chrono::nanoseconds between_long{std::chrono::milliseconds{20}};
};

/// A deferred control message, or a deferred refusal.
struct waiting_message {
  std::string identity;  ///< the client's ZeroMQ routing id
  wire::message_header header;
  std::string body;              ///< if its type has one
  verdict judged;                ///< if it is a refusal, this is the answer
  std::string user{};            ///< of a HELLO: what message_reader::user returned
  connection_name connection{};  ///< as incoming::connection
  time_point came;
};

/// Accounts for the shard's time that control messages and refusals take. Each connection earns a share of the time, up
/// to a burst, and pays for its messages. While a connection is in debt its messages are deferred, up to a bound, until
/// it has earned enough or the shard is idle; connections take turns. Time is passed in. Thread: the shard.
class control_queue {
 public:
  class account {
    friend class control_queue;
    std::chrono::nanoseconds balance{};
    time_point updated;  // when the balance was that
    std::deque<waiting_message> waiting;
    std::size_t bytes = 0;
    time_point free_at;  // when an idle shard may handle another one that is not paid for
  };

  explicit control_queue(const control_limits& limits = {}) : limits_(limits), long_at_(time_point::min()) {
    all_.balance = limits.burst_of_all;
    others_.balance = limits.burst;
  }
  control_queue(const control_queue&) = delete;
  control_queue& operator=(const control_queue&) = delete;

  /// The account of a connection. `known`: it has said HELLO. Valid until the next `account_of` or `sweep`.
  [[nodiscard]] account& account_of(std::string_view identity, bool known, time_point now);
  /// Whether a new message is handled at once: no message of the connection waits, and neither its account nor that of
  /// all connections together is in debt.
  [[nodiscard]] bool admits(account& payer, time_point now);
  /// Charges the account.
  void charge(account& payer, std::chrono::nanoseconds spent) noexcept;
  /// Whether a message with an identity and a body of these sizes can be deferred.
  [[nodiscard]] bool has_room(const account& payer, std::size_t identity, std::size_t body) const noexcept;
  /// Defers a message. Drops it and returns false if the connection has no room for it.
  [[nodiscard]] bool park(account& payer, waiting_message&& message);
  /// Drops the deferred messages of a connection that has left.
  void discard(std::string_view identity);

  /// The oldest message of the next connection that is not in debt. While the shard is idle, also one of a connection
  /// in debt from time to time; less often if `is_long` is true for the message. Call `done` afterwards.
  template <typename Predicate>
  [[nodiscard]] std::optional<waiting_message> next(time_point now, bool idle, Predicate&& is_long);
  /// The message from `next` is done and took `spent`. It is free if its connection was in debt.
  void done(std::chrono::nanoseconds spent, time_point now);
  /// When to call `next` again after it found nothing; `never` if nothing waits.
  [[nodiscard]] time_point next_at() const noexcept { return waiting_.empty() ? never : next_at_; }
  [[nodiscard]] std::size_t waiting() const noexcept { return messages_; }
  /// Number of accounts.
  [[nodiscard]] std::size_t size() const noexcept { return accounts_.size(); }
  /// Removes accounts that equal a new one.
  void sweep(time_point now);

 private:
  struct text_hash {
    using is_transparent = void;
    [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  static void earn(account& account, double share, std::chrono::nanoseconds most, time_point now) noexcept;
  [[nodiscard]] bool solvent(account& payer, time_point now) noexcept;
  [[nodiscard]] time_point solvent_at(const account& payer, time_point now) const noexcept;
  [[nodiscard]] static std::size_t bytes_of(std::size_t identity, std::size_t body) noexcept;
  [[nodiscard]] waiting_message take_front(account& payer);

  control_limits limits_;
  account all_;
  account others_;  // of the strangers that are too many
  std::unordered_map<std::string, account, text_hash, std::equal_to<>> accounts_;
  time_point swept_at_;
  std::deque<account*> waiting_;  // whose messages wait, each once
  std::size_t messages_ = 0;
  std::size_t bytes_ = 0;
  account* served_ = nullptr;  // by `next`
  bool served_free_ = false;
  bool served_long_ = false;
  time_point long_at_;  // when an idle shard may do a long one again
  time_point next_at_ = never;
};

template <typename Predicate>
std::optional<waiting_message> control_queue::next(time_point now, bool idle, Predicate&& is_long) {
  // A shard with other work looks at a few; all of them have their turn.
  constexpr std::size_t most_looks = 16;
  next_at_ = never;
  for (std::size_t left = idle ? waiting_.size() : std::min(waiting_.size(), most_looks); left > 0; --left) {
    account& payer = *waiting_.front();
    waiting_.pop_front();
    const bool paid = solvent(payer, now);
    const bool takes_long = is_long(std::as_const(payer.waiting.front()));
    const time_point free_at = takes_long ? long_at_ : payer.free_at;
    if (paid || (idle && now >= free_at)) {
      served_ = &payer;
      served_free_ = !paid;
      served_long_ = takes_long;
      return take_front(payer);
    }
    waiting_.push_back(&payer);
    next_at_ = std::min({next_at_, solvent_at(payer, now), std::max(free_at, now)});
  }
  return std::nullopt;
}

}  // namespace penstock
