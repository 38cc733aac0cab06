#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <zmq.hpp>

#include "daemon/security/handshake_account.hpp"
#include "daemon/security/keyring.hpp"
#include "daemon/security/refusal_log.hpp"

namespace penstock {

/// Watches the door of one socket: with keys it gives the socket CURVE and answers, for each connection, whether its
/// key is let in (ZAP, ZeroMQ's RFC 27); with or without, it counts what becomes of handshakes and says in the log what
/// is refused. Whatever fails here shuts the door: without an answer a handshake runs into its timeout.
///
/// Has a thread of its own, on the socket's context. Immovable: the thread holds its address.
class gatekeeper {
 public:
  /// Before `watched` is bound. Without `keys`, anybody is let in. `keys` and the context must live longer, and
  /// `watched` be open until `stop`. Throws zmq::error_t.
  gatekeeper(zmq::context_t& context, zmq::socket_t& watched, const keyring* keys);
  gatekeeper(const gatekeeper&) = delete;
  gatekeeper& operator=(const gatekeeper&) = delete;
  ~gatekeeper();

  /// Shuts the context down, as its end does, and waits for the thread.
  void stop() noexcept;
  /// Threads: any.
  [[nodiscard]] const handshake_account& account() const noexcept { return account_; }
  /// How often it has come round: some times a second. Threads: any.
  [[nodiscard]] std::uint64_t rounds() const noexcept { return rounds_.load(std::memory_order_relaxed); }

 private:
  void run();
  void serve();
  void answer(std::vector<zmq::message_t>& question);
  /// Whether the key is let in; then `user` is its text, which messages carry as their User-Id. Counts and logs when it
  /// is not.
  [[nodiscard]] bool lets_in(const std::vector<zmq::message_t>& question, std::string& user);
  void note(std::uint16_t event, std::uint32_t value);
  void refuse(handshake_refusal why, const std::string& from);

  zmq::context_t& context_;
  zmq::socket_t& watched_;
  const keyring* keys_;
  zmq::socket_t questions_;  // ZAP; not open without keys
  zmq::socket_t events_;
  handshake_account account_;
  refusal_log log_;
  std::atomic<std::uint64_t> rounds_{0};
  std::thread thread_;
};

}  // namespace penstock
