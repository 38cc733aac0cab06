#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "client/cpp/session_record.hpp"

namespace penstock::link {

/// The sessions that are open, and the requests of each that are in flight, in their order. Policy: it sends nothing.
/// Thread: the connection's.
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

  /// The session takes no more requests. Whether nothing of it is in flight.
  [[nodiscard]] bool close(const session_record& record);
  [[nodiscard]] bool is_closing(const session_record& record) const;
  void remove(const session_record& record) { sessions_.erase(&record); }

 private:
  struct entry {
    record_pointer record;
    std::map<std::uint64_t, std::uint64_t> line;  ///< sequence to request id
    std::uint64_t confirmed = 0;                  ///< frames that the daemon has certainly taken
    std::optional<std::uint64_t> resent_from;     ///< the gap that was answered last
    bool closing = false;
  };
  [[nodiscard]] entry* entry_of(const session_record& record);

  std::map<const session_record*, entry> sessions_;
};

}  // namespace penstock::link
