#pragma once

#include <cstddef>
#include <string>

#include "daemon/settings/settings.hpp"

namespace penstock {

/// The most host memory that clients can make a daemon hold, worked out from its configuration. In bytes. It holds for
/// clients that send whole messages of no more than their credits; SECURITY.md says what libzmq may hold beside it.
struct client_memory {
  std::size_t requests = 0;  ///< of one client: payloads in flight, those that ended early and still pass, and what
                             ///< libzmq received them in
  std::size_t replies = 0;   ///< of one client: in libzmq, in its queue, in its cache
  std::size_t slots = 0;     ///< of one shard: pinned, taken at start-up whatever clients do
  std::size_t recent = 0;    ///< of one shard: replies that its clients were lately sent
  std::size_t clients = 0;   ///< on one shard
  std::size_t shards = 0;
  std::size_t shared = 0;  ///< that all clients share with the daemon

  [[nodiscard]] std::size_t total() const noexcept {
    return shards * (clients * (requests + replies) + slots + recent) + shared;
  }
};

/// A shard keeps so many replies that its clients were lately sent, each of so many bytes at most.
inline constexpr std::size_t most_recent_replies = 1024;
inline constexpr std::size_t most_recent_reply_bytes = 4096;

/// Replies that libzmq may hold for one client. Twice its credits, since libzmq counts a message as taken only when
/// half of its mark has been; and control messages beside them.
[[nodiscard]] int replies_under_way(const client_settings& of) noexcept;

[[nodiscard]] client_memory memory_of_clients(const settings& what, std::size_t shards);

/// One line: "clients can make it hold at most 12.5 GiB: ...".
[[nodiscard]] std::string text_of(const client_memory& what);

}  // namespace penstock
