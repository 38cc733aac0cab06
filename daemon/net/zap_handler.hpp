#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <zmq.hpp>

#include "daemon/net/keys.hpp"
#include "daemon/request/counters.hpp"

namespace penstock {

/// Counts of a socket's handshakes. Written by the ZAP handler's thread, read by any.
class handshake_account {
 public:
  void succeed() noexcept { succeeded_.fetch_add(1, std::memory_order_relaxed); }
  void refuse(handshake_refusal why) noexcept {
    refused_[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }

  [[nodiscard]] handshake_report read() const noexcept {
    handshake_report now;
    now.succeeded = succeeded_.load(std::memory_order_relaxed);
    for (std::size_t why = 0; why < handshake_refusals; ++why) {
      now.refused[why] = refused_[why].load(std::memory_order_relaxed);
    }
    return now;
  }

 private:
  std::atomic<std::uint64_t> succeeded_{0};
  std::array<std::atomic<std::uint64_t>, handshake_refusals> refused_{};
};

/// Logs refused connections: of each kind the first at once, more in one line per interval, so that peers can't flood
/// the log. Thread: the ZAP handler's.
class refusal_log {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds interval{10};

  /// `peer`: its address, "" if it is not known.
  void note(handshake_refusal why, const std::string& peer, time_point now);
  /// Logs what has gathered, if it is time.
  void flush(time_point now);
  /// When `flush` has something to do; time_point::max() if nothing has gathered.
  [[nodiscard]] time_point next() const noexcept;

 private:
  struct kind {
    std::uint64_t silent = 0;  // refusals since the last line
    std::string peer;          // of the newest
    time_point last = time_point::min();
  };

  static void write(handshake_refusal why, kind& kind, time_point now);

  std::array<kind, handshake_refusals> kinds_;
};

/// Authenticates the connections of one socket. With keys it enables CURVE and tells libzmq for each connection whether
/// its key is authorised (ZAP, ZeroMQ's RFC 27). With or without keys it counts handshakes and logs refusals. If it
/// fails, nobody can connect: a handshake without an answer times out.
///
/// Has its own thread, on the socket's context. Immovable: the thread holds its address.
class zap_handler {
 public:
  /// Call it before `watched` is bound. Without `keys`, anybody may connect. `keys` and the context must outlive it,
  /// and `watched` must stay open until `stop`. Throws zmq::error_t.
  zap_handler(zmq::context_t& context, zmq::socket_t& watched, const keyring* keys);
  zap_handler(const zap_handler&) = delete;
  zap_handler& operator=(const zap_handler&) = delete;
  ~zap_handler();

  /// Shuts the context down and waits for the thread.
  void stop() noexcept;
  /// Any thread.
  [[nodiscard]] const handshake_account& account() const noexcept { return account_; }
  /// Iterations of its loop, a few each second: the thread is alive if they increase. Any thread.
  [[nodiscard]] std::uint64_t rounds() const noexcept { return rounds_.load(std::memory_order_relaxed); }

 private:
  void run();
  void serve();
  void answer(std::vector<zmq::message_t>& question);
  /// Whether the key is authorised; then `user` is its text, which messages carry as their User-Id. If not, counts and
  /// logs it.
  [[nodiscard]] bool authorises(const std::vector<zmq::message_t>& question, std::string& user);
  void note(std::uint16_t event, std::uint32_t value);
  void refuse(handshake_refusal why, const std::string& peer);

  zmq::context_t& context_;
  zmq::socket_t& watched_;
  const keyring* keys_;
  zmq::socket_t questions_;  // ZAP; closed without keys
  zmq::socket_t events_;
  handshake_account account_;
  refusal_log log_;
  std::atomic<std::uint64_t> rounds_{0};
  std::thread thread_;
};

}  // namespace penstock
