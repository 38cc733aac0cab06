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

#include "client/cpp/credit_window.hpp"
#include "client/cpp/payload.hpp"
#include "client/cpp/session_table.hpp"

namespace penstock::link {

/// A request from submit to its end.
struct pending_request {
  std::uint64_t id = 0;
  std::shared_ptr<const pipeline_info> pipeline;
  link::payload payload;  ///< kept for repeats
  std::uint32_t frames = 0;
  std::int64_t leading = 0;
  std::array<std::byte, 16> trace_id{};
  std::optional<sample_account> account;
  time_point submitted;
  time_point deadline = never;
  completion done;
  std::shared_ptr<session_record> session;  ///< nullptr = none
  std::uint64_t sequence = 0;               ///< number of the session's frames before it

  std::uint64_t need = 0;               ///< bytes that it needs in an arena; 0 when the arena would not help
  bool sent = false;                    ///< at least once, over any connection
  bool with_daemon = false;             ///< the daemon may use its memory in the arena
  bool cancelled = false;               ///< cancelled by the caller
  std::chrono::nanoseconds patience{};  ///< until the next repeat
  time_point alarm = never;             ///< set by request_table
};

/// The requests in flight, each with one alarm. Reads no clock. Thread: the connection's.
class request_table {
 public:
  /// nullptr when a request with that id is in flight already.
  pending_request* insert(pending_request&& request);
  [[nodiscard]] pending_request* find(std::uint64_t id);
  /// Removes a request; the caller must end it.
  [[nodiscard]] std::optional<pending_request> take(std::uint64_t id);
  /// All ids, in order of submission.
  [[nodiscard]] std::vector<std::uint64_t> ids() const;
  [[nodiscard]] std::size_t size() const noexcept { return requests_.size(); }

  void set_alarm(pending_request& request, time_point when);
  /// A request whose alarm has expired, which clears the alarm. nullptr when there is none.
  [[nodiscard]] pending_request* due(time_point now);
  /// A lower bound of the earliest alarm; `never` when there is none.
  [[nodiscard]] time_point next_alarm() const noexcept { return alarms_.empty() ? never : alarms_.top().first; }

 private:
  using alarm = std::pair<time_point, std::uint64_t>;

  std::unordered_map<std::uint64_t, pending_request> requests_;
  /// Also holds outdated alarms, which `due` skips.
  std::priority_queue<alarm, std::vector<alarm>, std::greater<>> alarms_;
};

}  // namespace penstock::link
