#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/arena.hpp"
#include "client/cpp/arena_size.hpp"
#include "client/cpp/arena_slot.hpp"
#include "client/cpp/arena_socket.hpp"
#include "client/cpp/credit_gate.hpp"
#include "client/cpp/payload.hpp"
#include "proto/control.hpp"

namespace penstock::link {

/// How long the daemon may take to hand over an arena.
inline constexpr std::chrono::seconds longest_attachment{5};

/// How this client comes to an arena, to a larger one when that has grown too small, and how it loses them; the slot
/// always says which one there is. One that was outgrown is kept as long as anything lies in it. Time is passed in, and
/// nothing here waits. Thread: the connection's.
class arena_lease {
 public:
  /// `first`: the bytes to begin with. After a failure the next try is `retry_after` away, each further one twice as
  /// long, up to `retry_limit`.
  arena_lease(arena_slot& slot, std::uint64_t first, std::chrono::nanoseconds retry_after,
              std::chrono::nanoseconds retry_limit)
      : slot_(slot), retry_after_(retry_after), retry_limit_(retry_limit), pause_(retry_after), size_(first) {}

  /// A request of that many bytes has found no room. No change where an arena is on its way, and soon after a failure.
  void want(std::uint64_t need, time_point now);
  /// Whether ATTACH is to be sent.
  [[nodiscard]] bool wanted() const noexcept { return step_ == step::wanted; }
  /// For how many bytes, where there may be `most`; 0 when there is nothing to be had.
  [[nodiscard]] std::uint64_t size(std::uint64_t most) noexcept { return size_.next(most); }
  /// It was sent.
  void asked(time_point now);
  /// A new connection stands: what was asked before may be lost.
  void ask_again() noexcept;
  /// ATTACHED came. Whether that was expected.
  [[nodiscard]] bool answered(const wire::attached& where, time_point now);
  /// The ATTACH was refused, perhaps for want of room: then less is asked for, where that would do. No change where no
  /// answer is awaited.
  void refused(std::string why, bool for_want_of_room, time_point now);
  /// What was on its way will not come. Where nothing was, there is none any more.
  void failed(std::string why, time_point now);
  /// There is none any more.
  void lost(std::string why, time_point now);
  /// Another daemon runs: nothing of the last one's counts. What was on its way is wanted of this one.
  void forget();

  /// Goes on with what has begun.
  void tend(time_point now);
  /// Of one that is held: whether the daemon has ended it. To be asked when the descriptor is readable.
  [[nodiscard]] bool ended() const noexcept {
    return step_ == step::none && held_.what != nullptr && held_.connection->ended();
  }
  /// To be polled for reading; -1 for none.
  [[nodiscard]] int descriptor() const noexcept {
    const arena_socket* const of = coming_ ? coming_.get() : held_.connection.get();
    return of != nullptr ? of->descriptor() : -1;
  }
  /// Until when there is nothing to do unless the descriptor is readable.
  [[nodiscard]] time_point next_due() const noexcept;

  [[nodiscard]] const arena* held() const noexcept { return held_.what.get(); }
  /// Whether the daemon knows the arena that it lies in, be it the one that is held or one that was outgrown.
  [[nodiscard]] bool has_place_of(const payload& which) const noexcept;

 private:
  enum class step { none, wanted, asked, fetching };
  struct tenure {
    std::unique_ptr<arena_socket> connection;
    std::shared_ptr<arena> what;
  };
  void take_over(std::shared_ptr<arena> come);
  /// Leaves those in which nothing lies any more.
  void leave_outgrown(time_point now) noexcept;
  /// Ends all that is held, before anything in it is given back.
  void let_go() noexcept;

  arena_slot& slot_;
  std::chrono::nanoseconds retry_after_;
  std::chrono::nanoseconds retry_limit_;
  std::chrono::nanoseconds pause_;
  step step_ = step::none;
  time_point not_before_ = time_point::min();
  time_point deadline_ = never;   ///< of what was asked
  time_point reconnect_ = never;  ///< while the Unix socket takes no more connections
  time_point look_at_ = never;    ///< whether something still lies in what was outgrown
  arena_size size_;
  std::unique_ptr<arena_socket> coming_;  ///< what is fetched
  tenure held_;
  std::vector<tenure> outgrown_;
};

}  // namespace penstock::link
