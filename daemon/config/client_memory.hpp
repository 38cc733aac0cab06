#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/config/settings.hpp"

namespace penstock {

/// What clients can make a daemon hold in host memory, from its configuration. In bytes. SECURITY.md says what libzmq
/// may hold beside it.
struct client_memory {
  std::size_t limit = 0;    ///< of all that is granted: requests, replies under way, queues, caches, arenas
  std::size_t slots = 0;    ///< beside it, of one shard: pinned, taken at start-up whatever clients do
  std::size_t recent = 0;   ///< beside it, of one shard: replies that its clients were lately sent
  std::size_t control = 0;  ///< beside it, of one shard: messages that are no requests and wait
  std::size_t shards = 0;
  std::size_t sources = 0;  ///< of the limit: what sources have for their queues

  [[nodiscard]] std::size_t total() const noexcept { return limit + shards * (slots + recent + control); }
};

/// What one client is granted when it is welcomed. In bytes.
struct client_needs {
  std::size_t windows = 1;        ///< how often its credits may be held: with sessions, requests that ended early too
  std::size_t overhead = 0;       ///< its credits: what small messages take beyond their payload
  std::size_t least_credits = 0;  ///< bytes of the largest request of any pipeline

  /// All that it takes to grant credits of so many bytes.
  [[nodiscard]] std::size_t total(std::size_t credit_bytes) const noexcept { return overhead + windows * credit_bytes; }
  /// The credits, in bytes, that it is granted while so much of the limit is left: what the configuration says, down
  /// to a sixteenth of what is left, and never less than the largest request.
  [[nodiscard]] std::size_t credits(std::size_t left, std::size_t configured) const noexcept;
};

/// `largest_request`: of any pipeline that is served, in payload bytes; `keeps_state`: whether any keeps state.
[[nodiscard]] client_needs needs_of_client(const client_settings& clients, std::size_t largest_request,
                                           bool keeps_state);
/// The payload of the largest request of such a pipeline.
[[nodiscard]] std::size_t largest_request(std::size_t frame_bytes, const batch_limits& batch,
                                          const client_settings& clients) noexcept;

/// A shard keeps so many replies that its clients were lately sent, each of so many bytes at most.
inline constexpr std::size_t most_recent_replies = 1024;
inline constexpr std::size_t most_recent_reply_bytes = 4096;
/// Of the control messages that wait at a shard.
inline constexpr std::size_t most_waiting_control_bytes = std::size_t{4} << 20U;
/// A reply of fewer bytes is counted with its client's credits, and a larger one when it is made.
inline constexpr std::size_t least_counted_reply_bytes = 4096;

/// Replies that libzmq may hold for one client. Twice its credits, since libzmq counts a message as taken only when
/// half of its mark has been; and control messages beside them.
[[nodiscard]] int replies_under_way(const client_settings& clients) noexcept;

/// `limits.memory`, or the default for a machine with that much memory.
[[nodiscard]] std::size_t memory_limit(const settings& settings, std::size_t machine) noexcept;
/// What queues of sources take of the limit, whatever is in them.
[[nodiscard]] std::size_t memory_of_sources(const std::vector<source_declaration>& sources) noexcept;
/// Throws configuration_error when the limit is too small for the sources and one client.
void check_memory_limit(const settings& settings, std::size_t limit);

[[nodiscard]] client_memory memory_of_clients(const settings& settings, std::size_t shards, std::size_t machine);

/// One line: "peers can make it hold at most 6 GiB (limits.memory): ...".
[[nodiscard]] std::string text_of(const client_memory& memory);

}  // namespace penstock
