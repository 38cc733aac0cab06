#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/descriptors.hpp"
#include "client/cpp/arena.hpp"
#include "client/cpp/credit_window.hpp"
#include "client/cpp/payload.hpp"
#include "proto/control.hpp"

namespace penstock::link {

/// Decides how many bytes to ask the daemon for: few at first, twice as many when a request finds no room, half as many
/// when the daemon has no room. Not thread-safe.
class arena_size {
 public:
  static constexpr std::uint64_t smallest = std::uint64_t{64} << 10U;

  /// `first`: bytes of the first arena, if two requests fit.
  explicit arena_size(std::uint64_t first) noexcept : first_(first) {}

  /// A request of `need` bytes found no room in the present arena of `held` bytes; 0 = none.
  void want(std::uint64_t need, std::uint64_t held) noexcept {
    need_ = need;
    held_ = held;
    divisor_ = 1;
  }
  /// The arena is gone; earlier refusals do not count any more.
  void start_anew() noexcept { want(need_, 0); }
  /// Bytes to ask for, at most `most`; 0 when a larger arena would not help.
  [[nodiscard]] std::uint64_t next(std::uint64_t most) noexcept {
    if (held_ > 0 && (most <= held_ || most < need_)) {
      return 0;
    }
    const std::uint64_t base = std::max(need_, held_);
    const std::uint64_t wanted = base > most / 2 ? most : std::min(most, std::max(first_, 2 * base));
    const std::uint64_t least = std::min(most, std::max({need_, held_ + 1, smallest}));
    const std::uint64_t asked = std::clamp(wanted / divisor_, least, most);
    may_be_less_ = asked > least;
    return asked;
  }
  /// The daemon had no room. True when asking for less makes sense.
  [[nodiscard]] bool halve() noexcept {
    divisor_ *= 2;
    return may_be_less_;
  }

 private:
  std::uint64_t first_;
  std::uint64_t need_ = 0;
  std::uint64_t held_ = 0;
  std::uint64_t divisor_ = 1;
  bool may_be_less_ = false;
};

/// Publishes the present arena from the connection's thread to all callers. Writer: the connection's thread. Readers:
/// any thread.
class published_arena {
 public:
  /// nullptr while there is none.
  [[nodiscard]] std::shared_ptr<arena> current() const;
  /// Why there is none; "" while there is one or the answer is pending.
  [[nodiscard]] std::string absence() const;
  /// As `current`, but waits for a pending answer until `deadline`.
  [[nodiscard]] std::shared_ptr<arena> wait(time_point deadline) const;

  /// Number of changes and of failed attempts, for `wait_for_change`.
  [[nodiscard]] std::uint64_t changes() const;
  /// Waits until `changes` differs from `seen`, at most until `deadline`.
  void wait_for_change(std::uint64_t seen, time_point deadline) const;

  void publish(std::shared_ptr<arena> next);
  /// An attempt to get a larger arena failed: wakes waiting callers.
  void keep();
  void withdraw(std::string reason);
  /// Back to a pending answer.
  void reset();

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable settled_;
  std::shared_ptr<arena> arena_;
  std::string absence_;
  std::uint64_t changes_ = 0;
};

/// The Unix connection that brings one arena and holds its lease: the lease ends with the connection. Never blocks.
/// Thread: the connection's.
class arena_socket {
 public:
  /// Throws std::runtime_error when the address or the ticket is malformed.
  explicit arena_socket(const wire::attached& attached);
  /// Shuts the connection down, also for a forked child that inherited it.
  ~arena_socket();
  arena_socket(const arena_socket&) = delete;
  arena_socket& operator=(const arena_socket&) = delete;

  /// Connects, sends the ticket and reads the answer, as far as possible without blocking. nullptr until the arena is
  /// complete. Throws std::runtime_error on failure.
  [[nodiscard]] std::shared_ptr<arena> fetch();
  /// True when the daemon has ended the lease. Only after `fetch` has succeeded.
  [[nodiscard]] bool ended() const noexcept;

  /// To poll for reading; -1 while the listener's backlog is full and `fetch` must be called again.
  [[nodiscard]] int descriptor() const noexcept { return connected_ ? socket_.number() : -1; }

 private:
  [[nodiscard]] bool connect();
  /// True when the answer is complete.
  [[nodiscard]] bool receive();

  static constexpr std::size_t answer_bytes = 16;

  std::string path_;  ///< in the form of sockaddr_un
  std::string ticket_;
  file_descriptor socket_;
  bool connected_ = false;
  std::array<std::byte, answer_bytes> answer_{};
  std::size_t received_ = 0;
  file_descriptor memory_;
};

/// How long the daemon may take to hand over an arena.
inline constexpr std::chrono::seconds longest_attachment{5};

/// Gets an arena from the daemon, replaces it by a larger one on demand, and notices its end. Publishes every change. A
/// replaced arena is kept while anything lies in it. Never blocks and reads no clock. Thread: the connection's.
class arena_lease {
 public:
  /// `first`: bytes of the first arena. After a failure it pauses for `retry_after`, doubled after each further failure
  /// up to `retry_limit`.
  arena_lease(published_arena& slot, std::uint64_t first, std::chrono::nanoseconds retry_after,
              std::chrono::nanoseconds retry_limit)
      : slot_(slot), retry_after_(retry_after), retry_limit_(retry_limit), pause_(retry_after), size_(first) {}

  /// A request of `need` bytes found no room. Ignored while an answer is pending, and in the pause after a failure.
  void want(std::uint64_t need, time_point now);
  /// True when ATTACH must be sent.
  [[nodiscard]] bool wanted() const noexcept { return step_ == step::wanted; }
  /// Bytes to ask for, at most `most`; 0 when a larger arena would not help.
  [[nodiscard]] std::uint64_t size(std::uint64_t most) noexcept { return size_.next(most); }
  /// ATTACH was sent.
  void asked(time_point now);
  /// After a reconnection: a pending ATTACH may be lost and is sent again.
  void ask_again() noexcept;
  /// ATTACHED came. False when none was expected.
  [[nodiscard]] bool answered(const wire::attached& attached, time_point now);
  /// ATTACH was refused. `for_want_of_room`: asks for less, if that makes sense. Ignored when no answer is pending.
  void refused(std::string reason, bool for_want_of_room, time_point now);
  /// The pending attempt failed; without one, the arena is lost.
  void failed(std::string reason, time_point now);
  /// The arena is lost.
  void lost(std::string reason, time_point now);
  /// The daemon was restarted: drops everything. A pending request is made to the new daemon.
  void forget();

  /// Continues a pending attempt, handles timeouts and releases empty arenas.
  void tend(time_point now);
  /// True when the daemon has ended the lease. Call it when the descriptor is readable.
  [[nodiscard]] bool ended() const noexcept {
    return step_ == step::none && held_.memory != nullptr && held_.connection->ended();
  }
  /// To poll for reading; -1 = none.
  [[nodiscard]] int descriptor() const noexcept {
    const arena_socket* const connection = fetching_ ? fetching_.get() : held_.connection.get();
    return connection != nullptr ? connection->descriptor() : -1;
  }
  /// When `tend` must be called although the descriptor is not readable.
  [[nodiscard]] time_point next_due() const noexcept;

  [[nodiscard]] const arena* held() const noexcept { return held_.memory.get(); }
  /// True when the payload lies in an arena that the daemon still shares: the present one or a replaced one.
  [[nodiscard]] bool contains(const payload& placed) const noexcept;

 private:
  enum class step { none, wanted, asked, fetching };
  struct held_arena {
    std::unique_ptr<arena_socket> connection;
    std::shared_ptr<arena> memory;
  };
  void adopt(std::shared_ptr<arena> arrived);
  /// Releases replaced arenas in which nothing lies any more.
  void release_empty_arenas(time_point now) noexcept;
  /// Ends all arenas, before any memory in them can be reused.
  void release_all() noexcept;

  published_arena& slot_;
  std::chrono::nanoseconds retry_after_;
  std::chrono::nanoseconds retry_limit_;
  std::chrono::nanoseconds pause_;
  step step_ = step::none;
  time_point not_before_ = time_point::min();
  time_point deadline_ = never;      ///< of the pending attempt
  time_point reconnect_ = never;     ///< while the listener's backlog is full
  time_point next_release_ = never;  ///< next check of the replaced arenas
  arena_size size_;
  std::unique_ptr<arena_socket> fetching_;
  held_arena held_;
  std::vector<held_arena> former_arenas_;
};

}  // namespace penstock::link
