#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::wire {

/// How a request ended. The high byte is the kind, the low byte the reason; PROTOCOL.md has the same table.
enum class status : std::uint16_t {
  ok = 0x0000,

  rejected = 0x0100,             ///< refused, no more specific reason
  malformed = 0x0101,            ///< the message can't be read: magic, lengths, counts
  unsupported_version = 0x0102,  ///< another major version; the body names the supported range
  unsupported_type = 0x0103,     ///< no such message type, or one that a client may not send
  hello_required = 0x0104,       ///< the daemon does not know this client (any more): send HELLO
  unknown_pipeline = 0x0105,
  wrong_dtype = 0x0106,
  wrong_shape = 0x0107,  ///< also shape × item size ≠ nbytes, and an overflow in it
  too_large = 0x0108,    ///< more frames, parts or bytes than one request may have
  no_credit = 0x0109,    ///< more requests or bytes in flight than granted
  overflow = 0x010A,     ///< accepted, then dropped for a newer one (overflow = "drop-oldest")
  too_many_clients = 0x010B,
  session_required = 0x010C,   ///< the pipeline keeps state: its frames belong to a session
  sequence_gap = 0x010D,       ///< frames are missing before these; the header's `sequence` is the expected one
  reply_gone = 0x010E,         ///< a repeat of session frames whose reply is no longer kept: they never run twice
  too_many_sessions = 0x010F,  ///< every place for a session is taken
  unknown_arena = 0x0110,      ///< the client shares no such memory with the daemon (any more)
  bad_place = 0x0111,          ///< not inside the shared memory, not at a multiple of 64, or too small
  unknown_repeat = 0x0112,     ///< a repeat in shared memory that is neither in flight nor kept; it was not run
  unknown_value = 0x0113,      ///< the pipeline has no such stage, or the stage no such number
  not_tunable = 0x0114,        ///< the number is there, and the pipeline does not let it change
  out_of_range = 0x0115,       ///< the stage does not take that value

  expired = 0x0200,  ///< the request's timeout ran out; the body names the step

  cancelled = 0x0300,

  failed = 0x0400,         ///< the device or an operator failed; the body names the error and the stage
  device_failed = 0x0401,  ///< the device is lost; the daemon restarts

  shutdown = 0x0500,  ///< the daemon is stopping

  session_lost = 0x0600,  ///< the daemon does not hold that session (any more)
};

/// What the high byte says. An ERROR's kind is never `ok`.
enum class status_kind : std::uint8_t {
  ok = 0,
  rejected = 1,
  expired = 2,
  cancelled = 3,
  failed = 4,
  shutdown = 5,
  session_lost = 6
};
inline constexpr std::size_t status_kinds = 7;

[[nodiscard]] constexpr status_kind kind_of(status code) noexcept {
  return static_cast<status_kind>(static_cast<std::uint16_t>(code) >> 8U);
}

struct status_entry {
  status code;
  std::string_view name;     ///< "WRONG_SHAPE"
  std::string_view meaning;  ///< one sentence
};

/// The one table that everything else reads.
[[nodiscard]] std::span<const status_entry> status_table() noexcept;
/// "WRONG_SHAPE"; for a code that is not in the table the name of its kind, else "UNKNOWN".
[[nodiscard]] std::string_view name_of(status code) noexcept;
/// "REJECTED", "EXPIRED", ...
[[nodiscard]] std::string_view name_of(status_kind kind) noexcept;

}  // namespace penstock::wire
