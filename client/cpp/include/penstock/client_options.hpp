#pragma once

#include <chrono>
#include <string>

namespace penstock {

/// How a client finds its daemon and how patient it is.
struct client_options {
  std::string url = "tcp://127.0.0.1:7600";  ///< any ZeroMQ endpoint: tcp://HOST:PORT, ipc://PATH
  std::string name = "penstock-cpp";         ///< for people who read the daemon's log; at most 64 bytes
  /// The daemon's public key, 40 letters of Z85, where the daemon asks for keys; "" where it does not. The connection
  /// is then encrypted, and the client needs a key of its own, whose public half the daemon lists: one of the two
  /// below.
  std::string server_key{};
  std::string key_file{};    ///< a file that `penstock keygen` has written, which nobody else can read
  std::string secret_key{};  ///< the secret key itself, 40 letters of Z85
  /// How long the constructor waits for the daemon's welcome.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
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
};

}  // namespace penstock
