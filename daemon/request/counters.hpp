#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "proto/status.hpp"

namespace penstock {

/// The outcomes of requests. Always: accepted = results + errors of each kind + in flight.
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

/// The counters of one pipeline.
struct pipeline_account {
  outcome_account requests;
  std::uint64_t frames = 0;  ///< of accepted requests
  std::uint64_t batches = 0;
  std::uint64_t batched_frames = 0;
  std::uint64_t refused = 0;                          ///< batches that the device refused
  std::array<std::uint64_t, close_reasons> closed{};  ///< by close_reason
  std::array<std::uint64_t, 24> batch_sizes{};        ///< batches by size_class of their frames
};

/// The histogram class of a batch: class k has more than 2^(k - 1) and up to 2^k frames, the last class all above.
[[nodiscard]] constexpr std::size_t size_class(std::int64_t frames) noexcept {
  const auto above = static_cast<std::uint64_t>(std::max<std::int64_t>(frames, 1) - 1);
  return std::min(static_cast<std::size_t>(std::bit_width(above)), pipeline_account{}.batch_sizes.size() - 1);
}

/// Bytes that batches had the device copy. Thread: the shard.
struct copied_bytes {
  std::uint64_t in = 0;             ///< from the host's memory to the device's
  std::uint64_t out = 0;            ///< back
  std::uint64_t within_device = 0;  ///< from or to device memory that a client shares
};

/// The counters of a shard. Thread: the shard.
struct account {
  std::uint64_t received = 0;         ///< messages of any type
  std::uint64_t clients_resumed = 0;  ///< HELLOs that resumed a place by token
  std::uint64_t clients_lost = 0;     ///< clients that lost their place because their connection had ended
  outcome_account requests;
  std::map<wire::status, std::uint64_t> refused;  ///< messages that were not accepted, by status
  std::uint64_t repeats_ignored = 0;              ///< repeats of a request in flight
  std::uint64_t repeats_answered = 0;             ///< repeats that were answered from the cache
  std::uint64_t replies_sent = 0;
  std::uint64_t replies_dropped = 0;        ///< the client's queue was full
  std::uint64_t replies_undeliverable = 0;  ///< the client had gone
  std::uint64_t results_published = 0;      ///< sent to a subscriber; a result counts once for each
  std::uint64_t results_lost = 0;           ///< that a subscriber's queue did not take, or whose connection had ended
  std::uint64_t results_withheld = 0;  ///< wanted by subscribers, but in device memory, or withheld by their sender
  std::uint64_t control_delayed = 0;   ///< control messages and refusals that were deferred
  std::uint64_t control_dropped = 0;   ///< those for which there was no room
  std::uint64_t payload_bytes_in = 0;
  std::uint64_t payload_bytes_out = 0;
};

/// Why a connection was refused before its first message.
enum class handshake_refusal : std::uint8_t {
  unlisted_key,      ///< its key is not authorised
  wrong_mechanism,   ///< plain text although keys are required, or keys although none are
  wrong_server_key,  ///< it uses a wrong server key, so its messages can't be decrypted
  malformed,         ///< it violated ZeroMQ's handshake
  unfinished,        ///< it left or exceeded handshake_timeout, perhaps after its key was refused
  no_descriptor,     ///< the process has no file descriptor left
};
inline constexpr std::size_t handshake_refusals = 6;

/// The label in metrics: "unlisted_key", "wrong_mechanism", ...
[[nodiscard]] constexpr std::string_view name_of(handshake_refusal why) noexcept {
  switch (why) {
    case handshake_refusal::unlisted_key:
      return "unlisted_key";
    case handshake_refusal::wrong_mechanism:
      return "wrong_mechanism";
    case handshake_refusal::wrong_server_key:
      return "wrong_server_key";
    case handshake_refusal::malformed:
      return "malformed";
    case handshake_refusal::unfinished:
      return "unfinished";
    case handshake_refusal::no_descriptor:
      return "no_descriptor";
  }
  return "";
}

/// The counts at one moment.
struct handshake_report {
  std::uint64_t succeeded = 0;
  std::array<std::uint64_t, handshake_refusals> refused{};  ///< by handshake_refusal
};

}  // namespace penstock
