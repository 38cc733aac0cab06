#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>

#include "proto/status.hpp"

namespace penstock {

/// What became of the requests. Always: accepted = results + errors of each kind + in flight.
struct outcome_account {
  std::uint64_t accepted = 0;
  std::uint64_t results = 0;
  std::array<std::uint64_t, wire::status_kinds> errors{};  ///< by wire::status_kind, of accepted requests
  std::uint64_t in_flight = 0;

  [[nodiscard]] bool balanced() const noexcept {
    std::uint64_t ended = results;
    for (const std::uint64_t count : errors) {
      ended += count;
    }
    return accepted == ended + in_flight;
  }
};

/// Why a batch was closed.
enum class close_reason : std::uint8_t { idle, full, delay, extent, drain };
inline constexpr std::size_t close_reasons = 5;

/// What one pipeline did.
struct pipeline_account {
  outcome_account requests;
  std::uint64_t frames = 0;  ///< of accepted requests
  std::uint64_t batches = 0;
  std::uint64_t batched_frames = 0;
  std::uint64_t refused = 0;                          ///< batches that the device refused
  std::array<std::uint64_t, close_reasons> closed{};  ///< by close_reason
  std::array<std::uint64_t, 24> batch_sizes{};        ///< batches by size_class of their frames
};

/// The class of a batch of so many frames: class k has those above 2^(k − 1) and up to 2^k, the last one all above.
[[nodiscard]] constexpr std::size_t size_class(std::int64_t frames) noexcept {
  const auto above = static_cast<std::uint64_t>(std::max<std::int64_t>(frames, 1) - 1);
  return std::min(static_cast<std::size_t>(std::bit_width(above)), pipeline_account{}.batch_sizes.size() - 1);
}

/// The counters of a shard. Plain integers: the shard's thread writes them and answers STATUS from them.
struct account {
  std::uint64_t received = 0;         ///< messages of any type
  std::uint64_t clients_resumed = 0;  ///< HELLOs whose token brought a client back to its place
  std::uint64_t clients_lost = 0;     ///< that lost their place because their connection had ended
  outcome_account requests;
  std::map<wire::status, std::uint64_t> refused;  ///< by status: SUBMITs and other messages that were not accepted
  std::uint64_t repeats_ignored = 0;              ///< of a request id that was in flight
  std::uint64_t repeats_answered = 0;             ///< from the cache of finished replies
  std::uint64_t replies_sent = 0;
  std::uint64_t replies_dropped = 0;        ///< the client's queue was full
  std::uint64_t replies_undeliverable = 0;  ///< the client had gone
  std::uint64_t control_delayed = 0;        ///< control messages and refusals that waited for their client's time
  std::uint64_t control_dropped = 0;        ///< those for which there was no room to wait
  std::uint64_t payload_bytes_in = 0;
  std::uint64_t payload_bytes_out = 0;
};

}  // namespace penstock
