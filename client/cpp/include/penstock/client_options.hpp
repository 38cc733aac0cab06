#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

/// How frames and results travel. Shared memory needs a daemon on the same machine that offers it; everything else goes
/// over ZeroMQ. Requests and results look the same either way.
enum class transport : std::uint8_t {
  automatic,  ///< large ones through shared memory if available, others over ZeroMQ
  zmq,        ///< everything over ZeroMQ
  /// As automatic, but the constructor throws without shared memory. Requests that find no room go over ZeroMQ and are
  /// counted in client_counters::unshared.
  shared_memory
};

/// Options of a client: address, keys, shared memory and times.
struct client_options {
  std::string url = "tcp://127.0.0.1:7600";  ///< tcp://HOST:PORT, ipc://PATH, or another ZeroMQ endpoint
  std::string name = "penstock-cpp";         ///< shown in the daemon's log; at most 64 bytes
  /// The daemon's public key, 40 characters of Z85; "" = no encryption. With it the connection is encrypted, and the
  /// client needs a key of its own, whose public half the daemon lists: one of the next two.
  std::string server_key{};
  std::string key_file{};    ///< a file of `penstock keygen`, readable by its owner only
  std::string secret_key{};  ///< the secret key itself, 40 characters of Z85
  penstock::transport transport = penstock::transport::automatic;
  /// Upper limit of the shared memory in bytes. It begins with `shared_at_first`, or with what two requests need, and
  /// doubles when a request finds no room; it is smaller when the daemon has less. It holds frames and results of
  /// requests in flight, results that the program keeps, and lent memory. A replaced, smaller memory remains while it
  /// is in use.
  std::uint64_t shared_bytes = std::uint64_t{64} << 20U;
  /// Bytes of the first shared memory. For a program that reuses lent memory: enough for that and the results, because
  /// frames in replaced memory are copied.
  std::uint64_t shared_at_first = std::uint64_t{4} << 20U;
  /// Minimum size of a request's frames or outputs for shared memory.
  std::uint64_t shared_from_bytes = std::uint64_t{16} << 10U;
  /// How long the constructor waits for WELCOME, also while nobody listens yet. nullopt: 5 s, but only 1 s while nobody
  /// listens. Errors that a retry can't help, such as an unknown host or missing keys, are thrown at once.
  std::optional<std::chrono::nanoseconds> connect_timeout{};
  /// Default timeout of requests, from submit to reply; 0 = unlimited.
  std::chrono::nanoseconds request_timeout = std::chrono::seconds{30};
  /// Extra time beyond the timeout to wait for the daemon's own EXPIRED.
  std::chrono::nanoseconds expiry_grace = std::chrono::milliseconds{250};
  /// A request without an answer is sent again after retry_after; the wait doubles up to retry_limit.
  std::chrono::nanoseconds retry_after = std::chrono::seconds{2};
  std::chrono::nanoseconds retry_limit = std::chrono::seconds{16};
  /// First wait before a reconnection.
  std::chrono::milliseconds reconnect_after{20};
  /// Interval of ZeroMQ heartbeats. A connection that is silent for three of them is renewed; 0 = never.
  std::chrono::milliseconds heartbeat{2000};
  /// How long the destructor may take to deliver GOODBYE.
  std::chrono::milliseconds linger{200};
  /// A zmq::context_t of this process, which must outlive the client: `url` may then be an inproc:// address in it.
  /// Such a connection has no handshake of ZeroMQ, no keys and no heartbeats. nullptr: the client has a context of its
  /// own.
  void* zmq_context = nullptr;
  /// Stays at the shard that `url` leads to instead of moving to the assigned one: for tools that inspect each shard.
  bool stays = false;
};

}  // namespace penstock
