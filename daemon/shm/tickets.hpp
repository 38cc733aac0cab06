#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "daemon/shm/segment.hpp"

namespace penstock {

/// The arena that a ticket stands for.
struct arena_order {
  std::uint32_t shard = 0;
  std::string client;  ///< the shard's number for it
  /// Of the client: one that said GOODBYE and came back can't use its old tickets.
  std::uint32_t incarnation = 0;
  std::size_t bytes = 0;
  arena_memory memory = arena_memory::host;
};

/// Tickets for shared memory: a client gets one over its data connection, where it is known, and shows it at the Unix
/// socket, where anybody can connect. Threads: any.
class ticket_table {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t digits = 32;
  static constexpr std::chrono::seconds valid{10};
  static constexpr std::size_t most = 4096;
  static constexpr std::size_t most_of_a_client = 4;

  /// 32 random hexadecimal digits; "" when too many tickets are out, in all or of the client, or when the system gives
  /// no random numbers.
  [[nodiscard]] std::string issue(arena_order order, clock::time_point now);
  /// The order, once; nothing for an unknown ticket or one that has expired.
  [[nodiscard]] std::optional<arena_order> redeem(std::string_view ticket, clock::time_point now);

 private:
  struct issued {
    arena_order order;
    clock::time_point until;
  };

  std::mutex mutex_;
  std::unordered_map<std::string, issued> out_;
};

}  // namespace penstock
