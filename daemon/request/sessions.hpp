#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/request/request.hpp"

namespace penstock {

/// Samples of a request that are filled in, among these steps of its session.
struct filled_steps {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint32_t count = 0;
  bool withheld = false;  ///< see wire::sample_flag
};

/// One session: an ordered sequence of a client's frames through one pipeline, which share the state of its stages.
/// Never moves: requests hold its address. Thread: the shard.
struct session_record {
  std::uint32_t number = 0;  ///< as SUBMIT carries it
  std::uint32_t place = 0;   ///< in the table, and of its state in the state pool
  const client_record* client = nullptr;
  const plan* pipeline = nullptr;
  std::string name;
  std::uint64_t frames = 0;      ///< accepted so far: the next sequence
  std::int64_t steps = 0;        ///< steps of the pipeline's input in these frames
  std::uint32_t references = 0;  ///< requests that are unanswered or still on the device
  time_point last_used;
  bool closed = true;
  std::string lost_to{};                         ///< why its plan is no longer served; "" if it is
  tuned_numbers numbers{};                       ///< of its next request; nullptr if its pipeline is not tuned
  std::map<std::size_t, double> own_numbers{};   ///< those that it has set, by their places in `numbers`
  std::map<std::size_t, double> held_numbers{};  ///< of the pipeline, as before a change that does not go with its own
  std::vector<filled_steps> filled{};            ///< of its requests that later outputs may reach back to

  /// Unanswered requests, in the session's order.
  request* first = nullptr;
  request* last = nullptr;

  // Written by session_state: how its state passes from batch to batch.
  slot* carrier = nullptr;           ///< the slot of its newest batch
  std::uint64_t carrier_launch = 0;  ///< launch of that batch; the slot may have another batch by now
  std::int32_t half = 0;             ///< half of the state that its next batch reads
  std::int32_t newest_frame = -1;    ///< its newest frame in the table that is being written

  [[nodiscard]] bool free() const noexcept { return closed && references == 0; }
  /// Adds a request to the unanswered ones, or removes it.
  void append(request& newest) noexcept;
  void unlink(request& answered) noexcept;
};

/// The sessions of a shard. All places are allocated in the constructor. Thread: the shard.
class session_table {
 public:
  /// `seed` makes session numbers differ from those of an earlier daemon, which must not be valid here.
  session_table(std::uint32_t max_sessions, std::chrono::nanoseconds idle_timeout, std::uint32_t seed,
                std::uint32_t max_per_client = UINT32_MAX);

  /// The client's open session of that name and pipeline, or a new one; always a new one for the name "". nullptr if
  /// all places are taken by sessions that are not idle, or if the client has as many as it may.
  [[nodiscard]] session_record* open(const client_record& client, const plan& pipeline, std::string_view name,
                                     time_point now);
  /// nullptr if there is no such session, or it belongs to another client.
  [[nodiscard]] session_record* find(std::uint32_t number, const client_record& client) noexcept;
  /// Whether there is such a session that can still have results.
  [[nodiscard]] bool in_use(std::uint32_t number) const noexcept {
    const session_record& there = places_[number % places_.size()];
    return there.number == number && !there.free();
  }
  /// Whether the client has as many open sessions as it may.
  [[nodiscard]] bool full(const client_record& client) const noexcept;
  /// Ends the session: it takes no more frames, and its place is free once nothing refers to it.
  static void close(session_record& done) noexcept { done.closed = true; }
  /// Whether the client has a session open.
  [[nodiscard]] bool has_any(const client_record& client) const noexcept;
  void close_all(const client_record& client) noexcept;
  /// Closes the sessions of a plan that is no longer served, for this reason.
  void close_all(const plan& pipeline, const std::string& why);
  /// Why the client's session was closed with its plan; "" if it was not, or if its place is taken again.
  [[nodiscard]] std::string why_lost(std::uint32_t number, const client_record& client) const;
  /// Calls `each(session_record&)` with the open sessions of a plan.
  template <class Each>
  void for_each_of(const plan& pipeline, const Each& each) {
    for (session_record& session : places_) {
      if (session.pipeline == &pipeline && !session.closed) {
        each(session);
      }
    }
  }
  /// Whether a session of the plan is open or has work on the device.
  [[nodiscard]] bool refers_to(const plan& pipeline) const noexcept;
  void set_idle_timeout(std::chrono::nanoseconds wanted) noexcept { idle_timeout_ = wanted; }
  /// Closes idle sessions.
  void sweep(time_point now) noexcept;

  [[nodiscard]] std::size_t places() const noexcept { return places_.size(); }
  /// Open sessions.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  [[nodiscard]] bool idle(const session_record& session, time_point now) const noexcept {
    return session.references == 0 && session.last_used + idle_timeout_ <= now;
  }

  std::chrono::nanoseconds idle_timeout_;
  std::uint32_t max_per_client_;
  std::vector<session_record> places_;
};

}  // namespace penstock
