#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/request/request.hpp"

namespace penstock {

/// One session: an ordered sequence of a client's frames through one pipeline, which share the state of its stages.
/// Never moves: requests hold its address. Thread: the shard.
struct session_record {
  std::uint32_t number = 0;  ///< what SUBMIT carries
  std::uint32_t place = 0;   ///< in the table, and of its state in the pools
  const client_record* client = nullptr;
  const plan* pipeline = nullptr;
  std::string name;
  std::uint64_t frames = 0;      ///< that were taken: the sequence that is expected next
  std::int64_t steps = 0;        ///< of the pipeline's input, of these frames together
  std::uint32_t references = 0;  ///< requests that refer to it: unanswered, or still with the device
  time_point last_used;
  bool closed = true;
  std::string lost_to{};  ///< why it was closed, where its plan is not served any more

  /// Requests without their terminal reply, in the session's order.
  request* first = nullptr;
  request* last = nullptr;

  // The wheel's: how its state goes from batch to batch.
  slot* carrier = nullptr;           ///< the slot of its newest batch
  std::uint64_t carrier_launch = 0;  ///< that batch; the slot may have another by now
  std::int32_t half = 0;             ///< of the state: what its next batch reads
  std::int32_t newest_frame = -1;    ///< while a batch's table is written: the session's newest frame in it

  [[nodiscard]] bool free() const noexcept { return closed && references == 0; }
  /// A request joins its unanswered ones, or leaves them.
  void append(request& newest) noexcept;
  void unlink(request& answered) noexcept;
};

/// The sessions of a shard. All places are there from the start. Thread: the shard.
class session_table {
 public:
  /// `seed` sets the first numbers apart from those of an earlier daemon: a number that it gave is not found here.
  session_table(std::uint32_t max_sessions, std::chrono::nanoseconds idle_timeout, std::uint32_t seed,
                std::uint32_t max_per_client = UINT32_MAX);

  /// The client's open session of that name and pipeline (a name of "" has none), else a new one; nullptr when every
  /// place is taken by sessions that are not idle for long, or the client has as many as it may.
  [[nodiscard]] session_record* open(const client_record& by, const plan& pipeline, std::string_view name,
                                     time_point now);
  /// nullptr when there is no such session, or it is not that client's.
  [[nodiscard]] session_record* find(std::uint32_t number, const client_record& of) noexcept;
  /// Whether the client has as many open sessions as it may.
  [[nodiscard]] bool full(const client_record& of) const noexcept;
  /// No more frames come; its place is free when nothing refers to it any more.
  static void close(session_record& done) noexcept { done.closed = true; }
  /// Whether the client has a session open.
  [[nodiscard]] bool has_any(const client_record& of) const noexcept;
  void close_all(const client_record& of) noexcept;
  /// That plan is not served any more.
  void close_all(const plan& of, const std::string& why);
  /// Why a session of that client was closed with its plan; "" when it was not, or somebody else has its place.
  [[nodiscard]] std::string why_lost(std::uint32_t number, const client_record& of) const;
  /// Whether a session of that plan is still open, or has work with the device.
  [[nodiscard]] bool refers_to(const plan& which) const noexcept;
  void set_idle_timeout(std::chrono::nanoseconds wanted) noexcept { idle_timeout_ = wanted; }
  /// Closes what has long been idle.
  void sweep(time_point now) noexcept;

  [[nodiscard]] std::size_t places() const noexcept { return places_.size(); }
  /// Sessions that are open.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  [[nodiscard]] bool idle(const session_record& which, time_point now) const noexcept {
    return which.references == 0 && which.last_used + idle_timeout_ <= now;
  }

  std::chrono::nanoseconds idle_timeout_;
  std::uint32_t max_per_client_;
  std::vector<session_record> places_;
};

}  // namespace penstock
