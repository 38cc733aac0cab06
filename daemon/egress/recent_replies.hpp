#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/egress/reply_parts.hpp"
#include "daemon/settings/client_memory.hpp"

namespace penstock {

/// Replies that a shard's clients were lately sent, for requests that they repeat. They share their bytes with what was
/// sent. Thread: the shard.
///
/// One table for all clients, small enough to stay in a processor's cache; a reply is kept until another takes its
/// place. Only for what may as well run again: what must be there belongs into session_replies.
class recent_replies {
 public:
  recent_replies();

  void keep(std::uint32_t client, std::uint64_t id, reply_parts& parts);
  /// Lets `found` be the reply's parts, which share their bytes with what is kept; empty when it is not there.
  void find(std::uint32_t client, std::uint64_t id, reply_parts& found);
  /// That reply must not be given again.
  void remove(std::uint32_t client, std::uint64_t id) noexcept;
  /// None of that client's must.
  void forget(std::uint32_t client) noexcept;

 private:
  static constexpr unsigned place_bits = 10;
  static constexpr std::size_t places = std::size_t{1} << place_bits;
  static_assert(places == most_recent_replies);

  struct entry {
    std::uint64_t id = 0;
    std::uint32_t client = 0;
    reply_parts parts;  // empty: nothing is kept here

    [[nodiscard]] bool is(std::uint32_t whose, std::uint64_t which) const noexcept {
      return id == which && client == whose && !parts.empty();
    }
  };

  [[nodiscard]] entry& place_of(std::uint32_t client, std::uint64_t id) noexcept;

  std::vector<entry> entries_;
};

}  // namespace penstock
