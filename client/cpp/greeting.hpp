#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "client/cpp/credit_gate.hpp"

namespace penstock::link {

/// Whether the daemon knows this client, and when to say HELLO. Policy without a clock. Thread: the connection's.
class greeting {
 public:
  greeting(std::chrono::nanoseconds retry_after, std::chrono::nanoseconds retry_limit)
      : retry_after_(retry_after), retry_limit_(retry_limit) {}

  /// The daemon has welcomed us over the connection that stands: requests may be sent.
  [[nodiscard]] bool ready() const noexcept { return ready_; }
  /// When the next HELLO is due; `never` when none is.
  [[nodiscard]] time_point hello_at() const noexcept { return hello_at_; }

  /// A new connection stands.
  void connected(time_point now) noexcept {
    forget();
    hello_at_ = now;
  }
  void disconnected() noexcept {
    forget();
    hello_at_ = never;
  }
  /// The daemon does not know this client (any more).
  void required(time_point now) noexcept {
    if (ready_ || hello_at_ == never) {
      forget();
      hello_at_ = now;
    }
  }
  /// Nothing has come for long, although something is in flight.
  void silent(time_point now) noexcept {
    if (ready_ && hello_at_ == never) {
      patience_ = retry_after_;
      hello_at_ = now;
    }
  }
  /// HELLO went out; another is due if no welcome comes.
  void said(time_point now) noexcept {
    hello_at_ = now + patience_;
    patience_ = std::min(2 * patience_, retry_limit_);
  }
  /// There was no place for this client. Whether to say so: it has gone on for long, or there was one before.
  /// Otherwise HELLO is said again soon, as places become free all the time.
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
  /// WELCOME came. Whether everything in flight has to be sent anew, because what was sent before is lost.
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
  std::string token_;  ///< of the client's place
  bool ready_ = false;
  bool lost_ = true;
  time_point hello_at_ = never;
  time_point no_place_since_ = never;
};

}  // namespace penstock::link
