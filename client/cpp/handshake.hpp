#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/client.hpp>

#include "client/cpp/catalogue.hpp"
#include "client/cpp/credit_window.hpp"
#include "client/cpp/dealer_socket.hpp"
#include "proto/control.hpp"

namespace penstock::link {

/// Counters of one client. Writer: the connection's thread (`submitted`, `shared`, `unshared`: callers). Readers: any
/// thread. Relaxed: they are independent of each other.
struct atomic_counters {
  std::atomic<std::uint64_t> submitted{0};
  std::atomic<std::uint64_t> results{0};
  std::atomic<std::uint64_t> errors{0};
  std::atomic<std::uint64_t> sent_again{0};
  std::atomic<std::uint64_t> hellos{0};
  std::atomic<std::uint64_t> unmatched_replies{0};
  std::atomic<std::uint64_t> malformed_replies{0};
  std::atomic<std::uint64_t> shared{0};
  std::atomic<std::uint64_t> thrown{0};
  std::atomic<std::uint64_t> unshared{0};

  static void count(std::atomic<std::uint64_t>& counter) noexcept { counter.fetch_add(1, std::memory_order_relaxed); }
};

/// Callbacks of the handshake, called on the connection's thread.
struct handshake_listener {
  std::function<void(const std::string& url)> moved;  ///< to the client's shard, before its WELCOME
  std::function<void(std::shared_ptr<const catalogue>)> welcomed;
  std::function<void(const request_error&)> refused;
  /// The connection failed during ZeroMQ's handshake, or there was no room for the client. `final`: a retry can't help.
  std::function<void(const std::string& reason, bool final)> failed;
};

/// Decides when HELLO is due and whether requests may be sent. Does no I/O and reads no clock. Thread: the
/// connection's.
class hello_timer {
 public:
  hello_timer(std::chrono::nanoseconds retry_after, std::chrono::nanoseconds retry_limit)
      : retry_after_(retry_after), retry_limit_(retry_limit) {}

  /// True after WELCOME over the present connection: requests may be sent.
  [[nodiscard]] bool ready() const noexcept { return ready_; }
  /// When the next HELLO is due; `never` when none is.
  [[nodiscard]] time_point hello_at() const noexcept { return hello_at_; }

  /// A new connection is established.
  void connected(time_point now) noexcept {
    forget();
    hello_at_ = now;
  }
  void disconnected() noexcept {
    forget();
    hello_at_ = never;
  }
  /// HELLO_REQUIRED came: the daemon does not know this client.
  void required(time_point now) noexcept {
    if (ready_ || hello_at_ == never) {
      forget();
      hello_at_ = now;
    }
  }
  /// The daemon has been silent although requests are in flight.
  void silent(time_point now) noexcept {
    if (ready_ && hello_at_ == never) {
      patience_ = retry_after_;
      hello_at_ = now;
    }
  }
  /// HELLO was sent; it is repeated if no WELCOME comes.
  void sent(time_point now) noexcept {
    hello_at_ = now + patience_;
    patience_ = std::min(2 * patience_, retry_limit_);
  }
  /// TOO_MANY_CLIENTS came. True when that is final: it has lasted 2 s, or the client was welcomed before. Otherwise
  /// HELLO is repeated soon, because other clients leave.
  [[nodiscard]] bool no_place(time_point now) noexcept {
    constexpr std::chrono::milliseconds pause{200};
    constexpr std::chrono::seconds most{2};
    no_place_since_ = std::min(no_place_since_, now);
    if (!instance_.empty() || now - no_place_since_ >= most) {
      return true;
    }
    hello_at_ = now + pause;
    return false;
  }
  /// WELCOME came. True when what was sent before may be lost, so that everything in flight must be sent again.
  [[nodiscard]] bool welcomed(std::string_view instance, std::string_view token) {
    const bool anew = lost_ || instance != instance_ || token != token_;
    instance_ = instance;
    token_ = token;
    ready_ = true;
    lost_ = false;
    hello_at_ = never;
    return anew;
  }

 private:
  void forget() noexcept {
    ready_ = false;
    lost_ = true;
    patience_ = retry_after_;
  }

  std::chrono::nanoseconds retry_after_;
  std::chrono::nanoseconds retry_limit_;
  std::chrono::nanoseconds patience_{};
  std::string instance_;
  std::string token_;  ///< from WELCOME; identifies this client after a reconnection
  bool ready_ = false;
  bool lost_ = true;
  time_point hello_at_ = never;
  time_point no_place_since_ = never;
};

/// HELLO and WELCOME: makes the daemon know this client after each connection, takes it to its shard, and keeps what
/// the last WELCOME said. Thread: the connection's.
class handshake {
 public:
  /// All references must outlive this. `options.url` changes when the client moves to its shard.
  handshake(client_options& options, dealer_socket& socket, credit_window& credits, atomic_counters& counters,
            handshake_listener listener);

  /// True after WELCOME over the present connection: requests may be sent.
  [[nodiscard]] bool ready() const noexcept { return timer_.ready(); }
  /// When the next HELLO is due; `never` when none is.
  [[nodiscard]] time_point hello_at() const noexcept { return timer_.hello_at(); }
  /// What the last WELCOME said; nullptr before the first.
  [[nodiscard]] const std::shared_ptr<const catalogue>& known() const noexcept { return catalogue_; }

  /// Follows changes of the connection since the last call.
  void follow_connection(time_point now);
  void send_hello_if_due(time_point now);
  /// Requests have had no answer: asks whether the daemon still knows this client.
  void silent(time_point now) noexcept { timer_.silent(now); }
  /// HELLO_REQUIRED came.
  void required(time_point now) noexcept { timer_.required(now); }

  /// A WELCOME that is for this shard.
  struct accepted_welcome {
    wire::welcome body;
    bool restarted = false;  ///< the daemon is another process than at the last WELCOME
    bool forgotten = false;  ///< the daemon has dropped the state that it kept for this client
  };
  /// Reads a WELCOME. nullopt when it is malformed, or when the client moves to another shard instead.
  [[nodiscard]] std::optional<accepted_welcome> read(const std::vector<zmq::message_t>& parts);
  /// Completes the handshake: new catalogue, credits, listener. True when everything in flight must be sent again.
  [[nodiscard]] bool accept(const accepted_welcome& welcome);
  /// An ERROR answered HELLO.
  void handle_error(wire::status code, const request_error& error);
  void handle_unsupported_version();

  /// Sends GOODBYE, if there is a connection.
  void say_goodbye();

 private:
  void note_change(dealer_socket::change change, time_point now);
  /// True when this client belongs to another shard: it connects there.
  [[nodiscard]] bool move_to_shard(const wire::welcome& body);

  client_options& options_;
  dealer_socket& socket_;
  credit_window& credits_;
  atomic_counters& counters_;
  handshake_listener listener_;
  hello_timer timer_;
  std::shared_ptr<const catalogue> catalogue_;
  bool shard_settled_ = false;
  std::string token_;  ///< of the last WELCOME: identifies this client over the next connection; "" before the first
};

}  // namespace penstock::link
