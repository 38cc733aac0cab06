#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/descriptors.hpp"
#include "client/cpp/request_table.hpp"
#include "proto/message.hpp"

namespace penstock::link {

class feed;
class session_record;

struct cancellation {
  std::uint64_t id = 0;
};

/// PING, GET_STATUS, GET_TRACE, GET_VALUES or SET. Sent once over each connection.
struct probe {
  struct answer {
    std::chrono::nanoseconds round_trip{};
    std::string body;
    std::uint64_t next_cursor = 0;  ///< of TRACE; of VALUES the session's frame from which they hold
  };
  wire::message_type question = wire::message_type::ping;
  std::uint64_t id = 0;
  std::uint64_t cursor = 0;                   ///< of GET_TRACE
  std::shared_ptr<session_record> session{};  ///< of GET_VALUES and SET
  std::string body{};                         ///< of SET
  time_point deadline = never;
  time_point asked = never;  ///< `never` until it was sent
  std::promise<answer> reply;
};

/// OPEN for a new session, repeated until the deadline.
struct session_opening {
  std::shared_ptr<session_record> record;
  std::uint64_t id = 0;
  time_point deadline = never;
  std::promise<void> opened;

  bool sent = false;                    ///< over any connection
  bool found_old = false;               ///< the daemon had an older session of that name, which was closed
  std::chrono::nanoseconds patience{};  ///< until the next repeat
  time_point repeat = never;
};

/// The caller has closed a session.
struct session_closing {
  std::shared_ptr<session_record> record;
};

/// SUBSCRIBE, repeated until the deadline.
struct subscription_opening {
  std::shared_ptr<link::feed> feed;
  std::uint64_t id = 0;
  time_point deadline = never;
  std::promise<std::uint64_t> granted;  ///< the bytes of its queue
};

/// The caller has closed a subscription.
struct subscription_closing {
  std::uint64_t id = 0;
};

/// A caller wants shared memory, or more of it.
struct arena_wish {
  std::uint64_t need = 0;  ///< bytes of the request that found no room
};

using command = std::variant<pending_request, cancellation, probe, session_opening, session_closing,
                             subscription_opening, subscription_closing, arena_wish>;

/// Commands from callers to the connection's thread, in order. The credits bound its length.
class command_queue {
 public:
  /// Appends a command and wakes the connection's thread if it sleeps. False, and `next` unchanged, when the queue is
  /// closed. Thread: any.
  [[nodiscard]] bool post(command& next);
  /// Moves all commands to `out`, replacing its content. Thread: the connection's, which counts as awake from now on.
  void take_all(std::vector<command>& out);
  /// True when the queue is empty: the thread may sleep until the descriptor is readable. Thread: the connection's.
  [[nodiscard]] bool fall_asleep();
  /// Refuses further commands and wakes the connection's thread. Thread: any.
  void close();

  [[nodiscard]] bool closed() const;
  /// To poll: readable after a command was posted to a sleeping thread, or the queue was closed.
  [[nodiscard]] int descriptor() const noexcept { return wake_event_.descriptor(); }

 private:
  mutable std::mutex mutex_;
  wake_event wake_event_;
  bool asleep_ = false;
  bool rung_ = false;
  bool closed_ = false;
  std::vector<command> waiting_;
};

}  // namespace penstock::link
