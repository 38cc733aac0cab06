#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "daemon/request/request.hpp"

namespace penstock {

/// The requests of one pipeline that wait for a slot. Each client's own stay in their order; between clients the turn
/// goes round, and each turn is worth so many bytes of payload (deficit round robin, Shreedhar and Varghese 1995). A
/// client that had nothing waiting comes before the round, for one turn (the new queues of RFC 8290, 4.2), so that one
/// that sends now and then does not wait behind those that always do.
///
/// A client with more waiting than 16 turns' worth is heavy. Where it is the device that is scarce, heavy clients
/// can be held back while others are not. Thread: the shard.
class fair_queue {
 public:
  /// `quantum`: bytes of payload a turn, at least 1.
  explicit fair_queue(std::size_t quantum) noexcept : quantum_(quantum) {}

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void push(request& last);
  /// The request whose turn it is, nullptr when there is none. Stays the same until a request comes or leaves. Without
  /// `heavy_too` heavy clients are passed over.
  [[nodiscard]] request* first(bool heavy_too = true) noexcept;
  [[nodiscard]] bool heavy(const request& waiting) const noexcept { return heavy(turns_[place_of(waiting)]); }
  /// `first` got its slot: its client's turn pays for it.
  void take(request& served) noexcept;
  /// A request leaves without a slot.
  void remove(request& any) noexcept;
  /// The oldest one of a client, nullptr when there is none.
  [[nodiscard]] request* oldest_of(const client_record& client) const noexcept;

 private:
  struct turn {
    request_queue waiting;
    std::size_t bytes = 0;    // that wait
    std::size_t deficit = 0;  // bytes that this turn may still take
    bool paid = false;        // this visit has had its quantum
    bool listed = false;      // it stands in one of the two lists, perhaps with nothing waiting
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

  [[nodiscard]] static std::size_t place_of(const request& what) noexcept;
  [[nodiscard]] turn& turn_of(const request& what) noexcept { return turns_[place_of(what)]; }
  [[nodiscard]] bool heavy(const turn& of) const noexcept { return of.bytes > heavy_turns * quantum_; }
  void pass_on(turn_list& from) noexcept;

  std::size_t quantum_;
  std::size_t size_ = 0;
  std::deque<turn> turns_;  // by client_record::index; grows to the most clients that were ever there
  turn_list fresh_;         // clients that came with nothing waiting before
  turn_list round_;         // the others
};

}  // namespace penstock
