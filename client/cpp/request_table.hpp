#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include <penstock/client.hpp>

#include "client/cpp/credit_gate.hpp"
#include "client/cpp/payload.hpp"
#include "client/cpp/session_record.hpp"

namespace penstock::link {

/// One request from submit to its end.
struct pending_request {
  std::uint64_t id = 0;
  std::shared_ptr<const pipeline_info> pipeline;
  link::payload payload;  ///< kept whole for repeats: what is sent shares its bytes
  std::uint32_t frames = 0;
  std::int64_t leading = 0;
  std::array<std::byte, 16> trace_id{};
  time_point submitted;
  time_point deadline = never;
  completion done;
  std::shared_ptr<session_record> session;  ///< nullptr = none
  std::uint64_t sequence = 0;               ///< frames of the session before it

  std::uint64_t need = 0;               ///< bytes of an arena that it would take up; 0 where that gains nothing
  bool sent = false;                    ///< at least once, over any connection
  bool with_daemon = false;             ///< its place in the arena is the daemon's until it says otherwise
  bool cancelled = false;               ///< the caller has given it up
  std::chrono::nanoseconds patience{};  ///< until the next repeat
  time_point alarm = never;             ///< the request_table's: when it next needs to be looked at
};

/// The requests in flight, and which of them needs something when. Policy without a clock: time is passed in.
/// Thread: the connection's.
class request_table {
 public:
  /// nullptr when a request of that id is in flight.
  pending_request* insert(pending_request&& what);
  [[nodiscard]] pending_request* find(std::uint64_t id);
  /// Removes it. The caller now has to end it.
  [[nodiscard]] std::optional<pending_request> take(std::uint64_t id);
  /// All ids, in the order in which they were submitted.
  [[nodiscard]] std::vector<std::uint64_t> ids() const;
  [[nodiscard]] std::size_t size() const noexcept { return requests_.size(); }

  void set_alarm(pending_request& of, time_point when);
  /// A request whose alarm has come; the alarm is off then. nullptr when there is none.
  [[nodiscard]] pending_request* due(time_point now);
  /// Never later than the earliest alarm; `never` when there is none.
  [[nodiscard]] time_point next_alarm() const noexcept { return alarms_.empty() ? never : alarms_.top().first; }

 private:
  using alarm = std::pair<time_point, std::uint64_t>;

  std::unordered_map<std::uint64_t, pending_request> requests_;
  /// May hold alarms of requests that are gone or that were set anew since: they are skipped when they come up.
  std::priority_queue<alarm, std::vector<alarm>, std::greater<>> alarms_;
};

}  // namespace penstock::link
