#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "client/cpp/doorbell.hpp"
#include "client/cpp/request_table.hpp"
#include "proto/message.hpp"

namespace penstock::link {

struct cancellation {
  std::uint64_t id = 0;
};

/// A question that is asked once: PING, GET_STATUS or GET_TRACE.
struct probe {
  struct answer {
    std::chrono::nanoseconds round_trip{};
    std::string body;
    std::uint64_t next_cursor = 0;  ///< of TRACE
  };
  wire::message_type question = wire::message_type::ping;
  std::uint64_t id = 0;
  std::uint64_t cursor = 0;  ///< of GET_TRACE
  time_point deadline = never;
  time_point asked = never;  ///< `never` until it was sent
  std::promise<answer> reply;
};

/// A session that is wanted. OPEN is repeated until the deadline.
struct session_opening {
  std::shared_ptr<session_record> record;
  std::uint64_t id = 0;
  time_point deadline = never;
  std::promise<void> opened;

  bool sent = false;                    ///< over any connection
  bool found_old = false;               ///< the daemon still had another session of that name, which was closed
  std::chrono::nanoseconds patience{};  ///< until the next repeat
  time_point repeat = never;
};

/// A session that is not needed any more.
struct session_closing {
  std::shared_ptr<session_record> record;
};

/// Memory to share with the daemon, or more of it, would be of use.
struct arena_wish {
  std::uint64_t need = 0;  ///< bytes of one request
};

using command = std::variant<pending_request, cancellation, probe, session_opening, session_closing, arena_wish>;

/// What callers want from the connection's thread, in order. Requests are bounded by the credits that they took.
class post_box {
 public:
  /// Takes the command, unless the box is closed: then false, and `what` is as it was. Wakes the connection's thread
  /// where that is asleep. Threads: any.
  [[nodiscard]] bool post(command& what);
  /// Replaces `out` by all that was posted. Thread: the connection's, which is awake from here.
  void take_all(std::vector<command>& out);
  /// Whether the connection's thread may sleep until the descriptor is readable: nothing is there. Thread: that one.
  [[nodiscard]] bool fall_asleep();
  /// Refuses what comes from now on, and wakes the connection's thread. Threads: any.
  void close();

  [[nodiscard]] bool closed() const;
  /// To be polled: readable when something was posted to a thread that is asleep, or the box was closed.
  [[nodiscard]] int descriptor() const noexcept { return bell_.descriptor(); }

 private:
  mutable std::mutex mutex_;
  doorbell bell_;
  bool asleep_ = false;
  bool rung_ = false;
  bool closed_ = false;
  std::vector<command> waiting_;
};

}  // namespace penstock::link
