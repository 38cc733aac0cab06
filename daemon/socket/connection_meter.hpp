#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// Bounds what a connection can make libzmq hold. libzmq 4.3.4 gathers the parts of a message until the last one has
/// come, and bounds neither their number nor what a peer sends before it is authenticated. So the program counts what
/// libzmq reads (daemon/libzmq_calls.cpp): of each connection the bytes that the daemon has not yet received as a whole
/// message. Beyond the bound the connection is cut: libzmq is told that the peer reset it, and frees what it held.
///
/// A stranger, who has not said HELLO, may be `stranger_bytes` and one request ahead, which it is told to say HELLO
/// before; all strangers together `strangers_bytes` and one request, beyond which each may only be `greeting_bytes`
/// ahead. Its first two frames, which are the handshake's, may have `greeting_bytes` each. A client may be ahead by
/// what `set_client_bytes` says.
///
/// A connection is cut as well when it speaks ZMTP 1 or 2, or has a routing id of the form that libzmq gives to
/// connections without one (a zero and four bytes): such an id, met again by libzmq's own counting, ends the process.
/// Over CURVE it can't be seen; there only listed clients have an id.
///
/// By descriptor, for the process: that is what the calls are made with. Threads: any; no call blocks or allocates.

inline constexpr std::int64_t stranger_bytes = 256 << 10U;
inline constexpr std::int64_t strangers_bytes = 16 << 20U;
inline constexpr std::int64_t greeting_bytes = 16 << 10U;
/// What libzmq holds for a part beside its bytes; and with framing and CURVE's.
inline constexpr std::int64_t frame_overhead = 96;
inline constexpr std::int64_t part_overhead = 160;
/// Connections with a higher descriptor are not taken.
inline constexpr std::size_t metered_descriptors = 65536;

/// The connection has been accepted.
void begin_metering(int descriptor) noexcept;
/// Whether it has, and is not closed.
[[nodiscard]] bool is_metered(int descriptor) noexcept;
/// It is about to be closed. False for other descriptors.
bool end_metering(int descriptor) noexcept;
/// These bytes came over it. False: it must be cut.
[[nodiscard]] bool meter_received(int descriptor, std::span<const std::byte> bytes) noexcept;
/// A whole message that came over it has been received, its routing id aside.
void meter_heard(int descriptor, std::size_t bytes, std::size_t parts) noexcept;
/// A connection of a message that may wait meanwhile its descriptor becomes another one's.
struct connection_name {
  int descriptor = -1;
  std::uint16_t generation = 0;  ///< 0: not metered, or ended
};
/// The one that has this descriptor now.
[[nodiscard]] connection_name connection_at(int descriptor) noexcept;
/// Whether it has ended; false where it never was metered.
[[nodiscard]] bool has_ended(const connection_name& which) noexcept;
/// It is a client's from now on, if it has not ended.
void meter_client(const connection_name& who) noexcept;
/// How far ahead a client may be; and how large a request is.
void set_client_bytes(std::int64_t bytes) noexcept;
void set_request_bytes(std::int64_t bytes) noexcept;

/// How many were cut.
[[nodiscard]] std::uint64_t connections_cut() noexcept;
/// Bytes that connections which have ended had made libzmq hold, since the start.
[[nodiscard]] std::uint64_t bytes_let_go() noexcept;

}  // namespace penstock
