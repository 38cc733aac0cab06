#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "client/cpp/arena.hpp"
#include "client/cpp/arena_slot.hpp"
#include "client/cpp/arena_socket.hpp"
#include "client/cpp/credit_gate.hpp"
#include "proto/control.hpp"

namespace penstock::link {

/// How long the daemon may take to hand over an arena.
inline constexpr std::chrono::seconds longest_attachment{5};

/// How this client comes to an arena, and how it loses it; the slot always says which one there is. Time is passed in,
/// and nothing here waits. Thread: the connection's.
class arena_lease {
 public:
  /// After a failure the next try is `retry_after` away, each further one twice as long, up to `retry_limit`.
  arena_lease(arena_slot& slot, std::chrono::nanoseconds retry_after, std::chrono::nanoseconds retry_limit)
      : slot_(slot), retry_after_(retry_after), retry_limit_(retry_limit), pause_(retry_after) {}

  /// An arena would be of use. No change where there is one, where one is on its way, and soon after a failure.
  void want(time_point now);
  /// Whether ATTACH is to be sent.
  [[nodiscard]] bool wanted() const noexcept { return step_ == step::wanted; }
  /// It was sent.
  void asked(time_point now);
  /// A new connection stands: what was asked before may be lost.
  void ask_again() noexcept;
  /// ATTACHED came. Whether that was expected.
  [[nodiscard]] bool answered(const wire::attached& where, time_point now);
  /// The ATTACH was refused. No change where none is awaited.
  void refused(std::string why, time_point now);
  /// There will be none, or there is none any more.
  void failed(std::string why, time_point now);
  /// Another daemon runs: nothing of the last one's counts. What was on its way is wanted of this one.
  void forget();

  /// Goes on with what has begun.
  void tend(time_point now);
  /// Of one that is held: whether the daemon has ended it. To be asked when the descriptor is readable.
  [[nodiscard]] bool ended() const noexcept { return step_ == step::held && socket_->ended(); }
  /// To be polled for reading; -1 for none.
  [[nodiscard]] int descriptor() const noexcept { return socket_ ? socket_->descriptor() : -1; }
  /// Until when there is nothing to do unless the descriptor is readable.
  [[nodiscard]] time_point next_due() const noexcept;

  [[nodiscard]] const arena* held() const noexcept { return arena_.get(); }

 private:
  enum class step { none, wanted, asked, fetching, held };
  /// Ends what is held, before anything in it is given back.
  void let_go() noexcept;

  arena_slot& slot_;
  std::chrono::nanoseconds retry_after_;
  std::chrono::nanoseconds retry_limit_;
  std::chrono::nanoseconds pause_;
  step step_ = step::none;
  time_point not_before_ = time_point::min();
  time_point deadline_ = never;   ///< of what was asked
  time_point reconnect_ = never;  ///< while the Unix socket takes no more connections
  std::optional<arena_socket> socket_;
  std::shared_ptr<arena> arena_;
};

}  // namespace penstock::link
