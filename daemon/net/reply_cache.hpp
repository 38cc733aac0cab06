#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <zmq.hpp>

#include "daemon/config/client_memory.hpp"

namespace penstock {

/// The parts of one reply, without the routing id.
using reply_parts = std::vector<zmq::message_t>;

/// The size of all parts together.
[[nodiscard]] std::size_t bytes_of(const reply_parts& parts) noexcept;
/// Makes `copy` the same reply; both share the bytes. `parts` is not const because libzmq marks its messages.
void share(reply_parts& parts, reply_parts& copy);

/// Recent replies to all clients, in case they repeat a request. The bytes are shared with the messages that were sent.
/// Thread: the shard.
///
/// A direct-mapped table, small enough for a processor's cache: a reply is kept until another takes its place. Only for
/// requests outside sessions, which may run again; session_replies keeps those of sessions.
class recent_replies {
 public:
  recent_replies();

  void keep(std::uint32_t client, std::uint64_t id, reply_parts& parts);
  /// Makes `found` the kept reply, sharing its bytes; empty if it is not kept.
  void find(std::uint32_t client, std::uint64_t id, reply_parts& found);
  /// The reply must not be sent again.
  void remove(std::uint32_t client, std::uint64_t id) noexcept;
  /// Removes all replies of that client.
  void forget(std::uint32_t client) noexcept;

 private:
  static constexpr unsigned place_bits = 10;
  static constexpr std::size_t places = std::size_t{1} << place_bits;
  static_assert(places == most_recent_replies);

  struct entry {
    std::uint64_t id = 0;
    std::uint32_t client = 0;
    reply_parts parts;  // empty: the entry is free

    [[nodiscard]] bool is(std::uint32_t owner, std::uint64_t request) const noexcept {
      return id == request && client == owner && !parts.empty();
    }
  };

  [[nodiscard]] entry& place_of(std::uint32_t client, std::uint64_t id) noexcept;

  std::vector<entry> entries_;
};

/// One client's replies to frames of its sessions. A repeated frame gets the kept reply, since it must not run twice.
/// The bytes are shared with the messages that were sent.
///
/// Direct-mapped by request id. Bounded by bytes; evicts the oldest. Thread: the shard.
class session_replies {
 public:
  session_replies() = default;
  /// `places`: at least the client's credits. `budget`: in bytes. Allocates when the first reply is kept.
  session_replies(std::size_t places, std::size_t budget) noexcept : places_(places), budget_(budget) {}

  /// Whether a reply of that size can be kept.
  [[nodiscard]] bool takes(std::size_t bytes) const noexcept { return bytes <= budget_; }
  /// Keeps the reply if it is not too large. Drops the reply that has the same place in any case.
  void keep(std::uint64_t id, reply_parts& parts);
  /// The reply must not be sent again.
  void remove(std::uint64_t id) noexcept;
  /// Makes `found` the kept reply, sharing its bytes; empty if it is not kept.
  void find(std::uint64_t id, reply_parts& found);

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct entry {
    std::uint64_t id = 0;
    reply_parts parts;
    std::size_t bytes = 0;  // of the budget
    std::uint32_t older = none;
    std::uint32_t newer = none;
  };

  void empty(std::uint32_t place) noexcept;

  std::size_t places_ = 0;
  std::size_t budget_ = 0;
  std::vector<entry> entries_;
  std::size_t kept_bytes_ = 0;
  std::uint32_t oldest_ = none;
  std::uint32_t newest_ = none;
};

}  // namespace penstock
