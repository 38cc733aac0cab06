#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/process_limits.hpp"

namespace penstock {

/// Limits on the rate of new connections.
struct connection_rates {
  double each_per_second = 250;  ///< for each source
  std::uint32_t each_at_once = 128;
  double all_per_second = 500;
  std::uint32_t all_at_once = 1024;
};

/// Limits the rate of new connections, for each source and for all together. A connection costs ZeroMQ's I/O thread
/// about 200 µs and the shard 80 µs. A source is a process of this machine, or a network address. Sources are told
/// apart by a keyed hash, so a few of very many share a rate. Time is passed in. Any thread; no call blocks or
/// allocates.
class connection_rate {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit connection_rate(const connection_rates& rates = {}) noexcept;

  /// Whether the source may have one more connection now. If so, it is counted.
  [[nodiscard]] bool admits(std::uint64_t source, time_point now) noexcept;
  /// Sets the bursts: connections at once from one source, and from all together.
  void set_at_once(std::uint32_t each, std::uint32_t all) noexcept;

 private:
  static constexpr std::size_t buckets = 1024;
  // The theoretical arrival time of the generic cell rate algorithm, in nanoseconds.
  using bucket = std::atomic<std::int64_t>;

  static bool take(bucket& bucket, std::int64_t now, std::int64_t interval, std::int64_t at_once) noexcept;

  std::int64_t each_interval_;
  std::int64_t all_interval_;
  std::atomic<std::uint32_t> each_at_once_;
  std::atomic<std::uint32_t> all_at_once_;
  std::array<bucket, buckets> each_{};
  bucket all_{0};
};

/// Whether a connection that was just accepted may stay. Connections of this process to itself always may.
[[nodiscard]] bool admit_connection(int descriptor) noexcept;
/// Raises the bursts so that this many clients can connect at once, half of them from one source.
void set_expected_clients(std::size_t clients) noexcept;
/// Connections that `admit_connection` has refused.
[[nodiscard]] std::uint64_t connections_too_often() noexcept;

// The functions below limit the memory that a connection can make libzmq hold. libzmq 4.3.4 collects the parts of a
// message until the last one has come, and limits neither their number nor what a peer sends before it is
// authenticated. So the program counts what libzmq reads (libzmq_calls.cpp): for each connection, the bytes that the
// daemon has not yet received as a whole message. Beyond the limit the connection is cut: libzmq is told that the peer
// reset it, and frees everything.
//
// These bytes are what a connection is "ahead". A stranger, a connection that has not said HELLO, may be ahead by
// `stranger_bytes` and one request, so that a request before HELLO gets its ERROR. All strangers together may be ahead
// by `strangers_bytes` and one request; if they are, each may be ahead only by `greeting_bytes`. Each of the two frames
// of the handshake may have `greeting_bytes`. A client may be ahead by `set_client_bytes`.
//
// A connection is also cut if it speaks ZMTP 1 or 2, or if its routing id has the form of those that libzmq assigns (a
// zero and four bytes): when libzmq's counter reaches such an id, the process ends. Over CURVE the id can't be seen;
// only authorised clients have one there.
//
// State is kept by descriptor, for the whole process. Any thread; no call blocks or allocates.

inline constexpr std::int64_t stranger_bytes = 256 << 10U;
inline constexpr std::int64_t strangers_bytes = 16 << 20U;
inline constexpr std::int64_t greeting_bytes = 16 << 10U;
/// Bytes that libzmq holds for a part beside its content; and with framing and CURVE.
inline constexpr std::int64_t frame_overhead = 96;
inline constexpr std::int64_t part_overhead = 160;

/// Connections that are accepted at this listening socket have the bounds of clients from the beginning: a live
/// source's senders. Until the descriptor is closed.
void meter_as_clients(int listening) noexcept;
/// Begins to count a connection that was accepted there.
void begin_metering(int descriptor, int listening = -1) noexcept;
/// Whether the descriptor is a connection that is counted.
[[nodiscard]] bool is_metered(int descriptor) noexcept;
/// Ends counting before the connection is closed. False for other descriptors.
bool end_metering(int descriptor) noexcept;
/// Counts bytes that were read from the connection. False: it must be cut.
[[nodiscard]] bool meter_received(int descriptor, std::span<const std::byte> bytes) noexcept;
/// The daemon has received a whole message of the connection; sizes without the routing id.
void meter_heard(int descriptor, std::size_t bytes, std::size_t parts) noexcept;
/// Identifies a connection, also after its descriptor number was reused.
struct connection_name {
  int descriptor = -1;
  std::uint16_t generation = 0;  ///< 0: not metered, or ended
};
/// The connection that has this descriptor now.
[[nodiscard]] connection_name connection_at(int descriptor) noexcept;
/// Whether the connection has ended; false if it was never counted.
[[nodiscard]] bool has_ended(const connection_name& name) noexcept;
/// The connection has said HELLO, unless it has ended.
void meter_client(const connection_name& name) noexcept;
/// Sets how far ahead a client may be, and the size of a request.
void set_client_bytes(std::int64_t bytes) noexcept;
void set_request_bytes(std::int64_t bytes) noexcept;

/// Connections that were cut.
[[nodiscard]] std::uint64_t connections_cut() noexcept;
/// Bytes that libzmq held for connections when they ended, since the start.
[[nodiscard]] std::uint64_t bytes_let_go() noexcept;

}  // namespace penstock
