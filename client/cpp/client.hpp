#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <penstock/client.hpp>
#include <penstock/session.hpp>
#include <sys/types.h>

#include "client/cpp/connection.hpp"
#include "client/cpp/messages.hpp"
#include "client/cpp/session_table.hpp"

namespace penstock {

/// The implementation of client, shared with its sessions. Thread-safe.
class __attribute__((visibility("hidden"))) client::implementation {
 public:
  explicit implementation(client_options options);
  ~implementation() { credits_.close(); }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;

  [[nodiscard]] std::shared_ptr<const link::catalogue> catalogue() const { return connection_.newest(); }
  [[nodiscard]] std::uint64_t reserve_id() noexcept { return next_id_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] const link::atomic_counters& counters() const noexcept { return counters_; }

  /// Submits a request, to a session if not nullptr. Returns its id; 0 when there is no credit and `may_wait` is false.
  /// Throws request_error.
  std::uint64_t submit(std::string_view pipeline, const std::shared_ptr<link::session_record>& session, request& input,
                       completion&& done, bool may_wait);
  void cancel(std::uint64_t id);
  link::probe::answer ask(wire::message_type question, std::uint64_t cursor, std::chrono::nanoseconds timeout);

  /// Sends the body of a SET for a session, or GET_VALUES for "", and waits for the answer. Throws request_error.
  [[nodiscard]] stage_numbers ask_values(const std::shared_ptr<link::session_record>& session, std::string body);

  [[nodiscard]] std::shared_ptr<link::session_record> open_session(std::string_view pipeline, std::string_view name);
  [[nodiscard]] std::optional<lent_memory> lend(std::size_t bytes);
  [[nodiscard]] shared_memory_info shared_memory() const;
  void close_session(const std::shared_ptr<link::session_record>& session) noexcept;
  /// The subscription's id; `queue_bytes` is what the daemon keeps for it.
  [[nodiscard]] std::uint64_t subscribe(const std::shared_ptr<link::feed>& feed, std::uint64_t& queue_bytes);
  void close_subscription(const std::shared_ptr<link::feed>& feed, std::uint64_t id) noexcept;
  /// Throws request_error in a forked process, and on the client's own thread.
  void check_may_wait() const;
  /// True in a process forked from the client's.
  [[nodiscard]] bool is_foreign() const noexcept;

 private:
  void check_process() const;
  [[nodiscard]] request_error closed_error() const;
  bool take_credit(std::size_t bytes, link::time_point deadline, bool may_wait);
  void post(link::command&& next);
  /// Chooses how the payload travels: through the arena if that saves a copy, otherwise over the socket.
  void load(link::pending_request& pending, request& input);
  /// The arena. Without one, asks for room for `need` bytes and waits for the answer; nullptr when there is none.
  [[nodiscard]] std::shared_ptr<link::arena> fetch_arena(std::uint64_t need, link::time_point deadline);
  /// Asks for a larger arena and waits for the answer. Returns the arena then published.
  [[nodiscard]] std::shared_ptr<link::arena> grow_arena(std::uint64_t need, link::time_point deadline);

  const pid_t process_;
  client_options options_;
  std::atomic<std::uint64_t> next_id_{link::attach_id + 1};  ///< written and read by every caller
  link::atomic_counters counters_;
  link::credit_window credits_;
  link::published_arena arenas_;
  link::connection connection_;
};

/// Makes a future and the completion that fulfils it.
[[nodiscard]] completion keep_promise_of(std::future<result>& future);

}  // namespace penstock
