#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "client/cpp/credit_gate.hpp"
#include "client/cpp/session_record.hpp"

namespace penstock::link {

/// The sessions that are open, and the requests of each that are in flight, in their order. Policy without a clock: it
/// sends nothing, and time is passed in. Thread: the connection's.
class session_book {
 public:
  using record_pointer = std::shared_ptr<session_record>;

  /// OPENED came.
  void add(record_pointer record);
  [[nodiscard]] bool holds(const session_record& record) const { return sessions_.contains(&record); }
  /// The session of that name on that pipeline; nullptr when there is none.
  [[nodiscard]] record_pointer find(std::string_view pipeline, std::string_view name) const;
  [[nodiscard]] std::vector<record_pointer> all() const;
  /// Its requests in flight, in their order.
  [[nodiscard]] std::vector<std::uint64_t> line(const session_record& record) const;

  /// A request joined the end of the line.
  void joined(const session_record& record, std::uint64_t sequence, std::uint64_t id);
  /// A request has ended, for whatever reason. Whether the session is closing and nothing of it is left in flight.
  [[nodiscard]] bool left(const session_record& record, std::uint64_t sequence);
  /// The daemon has taken all frames below `sequence`: it answered one of them.
  void confirmed(const session_record& record, std::uint64_t sequence);

  /// What a SEQUENCE_GAP asks for.
  struct gap {
    bool lost = false;               ///< the frame is not in flight any more: it can't be sent again
    std::vector<std::uint64_t> ids;  ///< to be sent again, in this order; none when that has been done already
  };
  [[nodiscard]] gap missing(const session_record& record, std::uint64_t expected);
  /// What was sent again may have been lost too: the next gap counts anew.
  void repeated(const session_record& record);

  /// The daemon had no room for the request of `sequence`, the next that it expects. That one, and what follows it,
  /// pauses from now on: min(first_pause, 100 ms), each time that the same request is refused twice as long, up to
  /// pause_limit. Gaps ask for nothing meanwhile. No change where it pauses already, or where that request was taken.
  void refused(const session_record& record, std::uint64_t sequence, time_point now,
               std::chrono::nanoseconds first_pause, std::chrono::nanoseconds pause_limit);
  /// Whether the request of that sequence waits for the end of a pause.
  [[nodiscard]] bool pauses(const session_record& record, std::uint64_t sequence) const;
  /// When the next pause ends; `never` when there is none.
  [[nodiscard]] time_point next_resumption() const;
  /// Ends the pauses that are over. Their requests, to be sent again in this order.
  [[nodiscard]] std::vector<std::uint64_t> resume(time_point now);
  /// Ends its pause, if there is one: everything of it is sent again.
  void resume_at_once(const session_record& record) { pauses_.erase(&record); }

  /// The session takes no more requests. Whether nothing of it is in flight.
  [[nodiscard]] bool close(const session_record& record);
  [[nodiscard]] bool is_closing(const session_record& record) const;
  void remove(const session_record& record);

 private:
  struct entry {
    record_pointer record;
    std::map<std::uint64_t, std::uint64_t> line;  ///< sequence to request id
    std::uint64_t confirmed = 0;                  ///< frames that the daemon has certainly taken
    std::optional<std::uint64_t> resent_from;     ///< the gap that was answered last
    std::optional<std::uint64_t> refused;         ///< the request that there was no room for last
    std::chrono::nanoseconds patience{};          ///< how long that one paused
    bool closing = false;
  };
  struct pause {
    std::uint64_t sequence = 0;  ///< of the first request that waits
    time_point until;
  };
  [[nodiscard]] entry* entry_of(const session_record& record);
  [[nodiscard]] static std::vector<std::uint64_t> line_from(const entry& of, std::uint64_t sequence);

  std::map<const session_record*, entry> sessions_;
  std::map<const session_record*, pause> pauses_;  ///< of those that pause
};

}  // namespace penstock::link
