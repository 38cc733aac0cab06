#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "daemon/security/handshake_account.hpp"

namespace penstock {

/// Says in the log that connections are refused: the first of each kind at once, those that follow together, so that
/// nobody can fill the log from outside. Thread: the gatekeeper's.
class refusal_log {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds interval{10};

  /// `from`: the peer's address, "" where it is not known.
  void note(handshake_refusal why, const std::string& from, time_point now);
  /// Says what has gathered, where it is time.
  void flush(time_point now);
  /// When `flush` has something to do; time_point::max() when it has nothing.
  [[nodiscard]] time_point next() const noexcept;

 private:
  struct kind {
    std::uint64_t silent = 0;  // since the last line
    std::string from;          // of the newest
    time_point last = time_point::min();
  };

  static void write(handshake_refusal why, kind& of, time_point now);

  std::array<kind, handshake_refusals> kinds_;
};

}  // namespace penstock
