#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

/// How frames and results travel. Shared memory is for a daemon on the same machine that offers it; everything that
/// does not go through it goes over ZeroMQ, and neither requests nor results look any different.
enum class transport : std::uint8_t {
  automatic,  ///< large ones through shared memory where that can be had, all others over ZeroMQ
  zmq,        ///< all over ZeroMQ
  /// As automatic, but the constructor throws where there is none. What finds no room later goes over ZeroMQ, and is
  /// counted: client_counters::unshared.
  shared_memory
};

/// How a client finds its daemon and how patient it is.
struct client_options {
  std::string url = "tcp://127.0.0.1:7600";  ///< tcp://HOST:PORT, ipc://PATH, or another endpoint of ZeroMQ's
  std::string name = "penstock-cpp";         ///< for people who read the daemon's log; at most 64 bytes
  /// The daemon's public key, 40 letters of Z85, where the daemon asks for keys; "" where it does not. The connection
  /// is then encrypted, and the client needs a key of its own, whose public half the daemon lists: one of the two
  /// below.
  std::string server_key{};
  std::string key_file{};    ///< a file that `penstock keygen` has written, which nobody else can read
  std::string secret_key{};  ///< the secret key itself, 40 letters of Z85
  penstock::transport transport = penstock::transport::automatic;
  /// How much memory to share with the daemon, in bytes, at most: `shared_at_first`, or what two requests need, and
  /// twice as much whenever a request found no room; less where the daemon has no room for so much. It holds the frames
  /// and the results of requests in flight, the results that the program keeps, and what it was lent. What it has
  /// outgrown stays beside it as long as anything lies there.
  std::uint64_t shared_bytes = std::uint64_t{64} << 20U;
  /// For a program that writes into the same lent memory again and again: as much as that and the results take. A frame
  /// that lies in memory which the client has outgrown is copied into what it has now.
  std::uint64_t shared_at_first = std::uint64_t{4} << 20U;
  /// A request goes through shared memory when its frames or its outputs have at least so many bytes.
  std::uint64_t shared_from_bytes = std::uint64_t{16} << 10U;
  /// How long the constructor waits for the daemon's welcome, also while nobody listens there yet. Unset: 5 s, but 1 s
  /// only where nobody listens. What waiting can't help, a name that does not exist or missing keys, is thrown at once.
  std::optional<std::chrono::nanoseconds> connect_timeout{};
  /// The budget of a request that names none, from submit to reply; 0 = none.
  std::chrono::nanoseconds request_timeout = std::chrono::seconds{30};
  /// How much longer than its budget a request waits for the daemon's own word that it expired.
  std::chrono::nanoseconds expiry_grace = std::chrono::milliseconds{250};
  /// A request without an answer is sent again after this long; each further wait is twice the last, up to retry_limit.
  std::chrono::nanoseconds retry_after = std::chrono::seconds{2};
  std::chrono::nanoseconds retry_limit = std::chrono::seconds{16};
  /// How soon a lost connection is tried again, at first.
  std::chrono::milliseconds reconnect_after{20};
  /// A peer that says nothing for three of these is taken for gone, and the connection is made anew; 0 = never.
  std::chrono::milliseconds heartbeat{2000};
  /// How long the destructor may take to deliver the client's goodbye.
  std::chrono::milliseconds linger{200};
  /// Stays at the shard that `url` leads to, whichever one the daemon names: for programs that look at each of them.
  bool stays = false;
};

}  // namespace penstock
