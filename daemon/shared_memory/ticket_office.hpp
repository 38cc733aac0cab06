#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "daemon/shared_memory/arena_order.hpp"

namespace penstock {

/// Tickets: a client gets one over its data connection, which says who it is, and shows it at the Unix socket, where
/// anybody may come. Threads: any.
class ticket_office {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t digits = 32;
  static constexpr std::chrono::seconds valid{10};
  static constexpr std::size_t most = 4096;
  static constexpr std::size_t most_of_a_client = 4;

  /// A ticket of 32 hexadecimal digits that cannot be guessed; "" when too many are out, all together or the client's,
  /// or the system gives no random numbers.
  [[nodiscard]] std::string issue(arena_order what, clock::time_point now);
  /// What it is good for, once; nothing for one that there is not, or that is too old.
  [[nodiscard]] std::optional<arena_order> redeem(std::string_view ticket, clock::time_point now);

 private:
  struct issued {
    arena_order what;
    clock::time_point until;
  };

  std::mutex mutex_;
  std::unordered_map<std::string, issued> out_;
};

}  // namespace penstock
