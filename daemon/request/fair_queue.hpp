#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "daemon/request/request.hpp"

namespace penstock {

/// The requests of one pipeline that wait for a slot. The requests of a client keep their order. Clients take turns:
/// deficit round robin by bytes of payload (Shreedhar and Varghese 1995). A client that had nothing waiting gets its
/// first turn before the round (the new queues of RFC 8290, 4.2), so occasional senders do not wait behind steady ones.
///
/// A client with more bytes waiting than 16 turns are worth is heavy. While the device is busy, heavy clients can be
/// held back and others served. Thread: the shard.
class fair_queue {
 public:
  /// `quantum`: bytes of payload in a turn, at least 1.
  explicit fair_queue(std::size_t quantum) noexcept : quantum_(quantum) {}

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void push(request& last);
  /// The next request, or nullptr; the same one until a request is added or removed. Without `heavy_too`, heavy clients
  /// are skipped.
  [[nodiscard]] request* first(bool heavy_too = true) noexcept;
  [[nodiscard]] bool heavy(const request& waiting) const noexcept { return heavy(turns_[place_of(waiting)]); }
  /// Removes the result of `first`, which got a slot, and charges its client's turn.
  void take(request& served) noexcept;
  /// Removes a request that got no slot.
  void remove(request& any) noexcept;
  /// The client's oldest request, or nullptr.
  [[nodiscard]] request* oldest_of(const client_record& client) const noexcept;

 private:
  struct turn {
    request_queue waiting;
    std::size_t bytes = 0;    // that wait
    std::size_t deficit = 0;  // bytes that the turn may still take
    bool paid = false;        // this visit got its quantum
    bool listed = false;      // in one of the two lists, perhaps with nothing waiting
    turn* next = nullptr;
  };
  struct turn_list {
    turn* front = nullptr;
    turn* back = nullptr;
    std::size_t size = 0;

    void append(turn& last) noexcept;
    [[nodiscard]] turn& pop() noexcept;
  };

  static constexpr std::size_t heavy_turns = 16;

  [[nodiscard]] static std::size_t place_of(const request& request) noexcept;
  [[nodiscard]] turn& turn_of(const request& request) noexcept { return turns_[place_of(request)]; }
  [[nodiscard]] bool heavy(const turn& turns) const noexcept { return turns.bytes > heavy_turns * quantum_; }
  void pass_on(turn_list& list) noexcept;

  std::size_t quantum_;
  std::size_t size_ = 0;
  std::deque<turn> turns_;  // by client_record::index; grows to the most clients that were ever there
  turn_list fresh_;         // clients that had nothing waiting before
  turn_list round_;         // the others
};

}  // namespace penstock
