#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "daemon/request/request.hpp"

namespace penstock {

/// The requests of one pipeline that wait for a slot. Each client's own stay in their order; between clients the turn
/// goes round, and each turn is worth so many bytes of payload (deficit round robin, Shreedhar and Varghese 1995), so
/// that one that floods waits behind itself alone. Thread: the shard.
class fair_queue {
 public:
  /// `quantum`: bytes of payload a turn, at least 1.
  explicit fair_queue(std::size_t quantum) noexcept : quantum_(quantum) {}

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void push(request& last);
  /// The request whose turn it is, nullptr when there is none. Stays the same until a request leaves, or comes to an
  /// empty queue.
  [[nodiscard]] request* first() noexcept;
  /// `first` got its slot: its client's turn pays for it.
  void take(request& served) noexcept;
  /// A request leaves without a slot.
  void remove(request& any) noexcept;
  /// The oldest one of a client, nullptr when there is none.
  [[nodiscard]] request* oldest_of(const client_record& client) const noexcept;

 private:
  struct turn {
    request_queue waiting;
    std::size_t deficit = 0;  // bytes that this turn may still take
    bool paid = false;        // this visit has had its quantum
    turn* next = nullptr;     // in the round
  };

  void leave_round(turn& empty) noexcept;

  std::size_t quantum_;
  std::size_t size_ = 0;
  std::deque<turn> turns_;  // by client_record::index; grows to the most clients that were ever there
  turn* front_ = nullptr;   // the round: clients with requests, the one whose turn it is first
  turn* back_ = nullptr;
};

}  // namespace penstock
