#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <penstock/client.hpp>

#include "client/cpp/arena_lease.hpp"
#include "client/cpp/catalogue.hpp"
#include "client/cpp/command_queue.hpp"
#include "client/cpp/control_requests.hpp"
#include "client/cpp/credit_window.hpp"
#include "client/cpp/dealer_socket.hpp"
#include "client/cpp/handshake.hpp"
#include "client/cpp/messages.hpp"
#include "client/cpp/request_table.hpp"
#include "client/cpp/session_table.hpp"
#include "client/cpp/subscription_table.hpp"

namespace penstock::link {

/// The client's side of the protocol: sends requests, repeats them after silence, and ends each with a result or an
/// error. Keeps the order of sessions and the use of shared memory. Thread: the connection's.
class protocol_engine {
 public:
  /// The references must outlive this. Throws as dealer_socket does.
  protocol_engine(const client_options& options, credit_window& credits, published_arena& arenas,
                  atomic_counters& counters, handshake_listener listener);

  /// Executes a caller's command.
  void perform(command&& next, time_point now);
  /// Handles received messages, at most `most`. True when there may be more.
  bool receive(int most);
  /// Handles connection changes and timers: HELLO, repeats, expiries.
  void tend(time_point now);
  /// When `tend` must be called although nothing has arrived.
  [[nodiscard]] time_point next_due() const;
  /// Waits for a message, the arena's connection, the descriptor or `next_due`.
  void wait(int descriptor);
  /// Sends GOODBYE and ends everything in flight.
  void close();
  /// Ends everything in flight, and later commands, with that reason.
  void fail(const std::string& reason);
  /// Ends a command that will not be performed.
  void refuse(command&& next);

 private:
  void accept(pending_request&& request, time_point now);
  void cancel(std::uint64_t id);
  /// Sends a request, unless there is no connection or its session is paused.
  void send(pending_request& request, time_point now);
  void send_again(pending_request& request, time_point now);
  void handle_timeout(pending_request& request, time_point now);
  /// Ends an expired request. True when it has expired.
  bool expire(const pending_request& request, time_point now);
  /// Sends everything in flight again, in order: what was sent before is lost.
  void send_all_again(time_point now);
  void end_all();
  [[nodiscard]] request_error closed_error() const;
  /// Looks the request's pipeline up in the present catalogue. False when it has changed; the request has then ended.
  bool update_pipeline(pending_request& request);

  void handle(std::vector<zmq::message_t>& parts);
  void handle_welcome(const std::vector<zmq::message_t>& parts);
  void handle_result(const wire::message_header& header, std::vector<zmq::message_t>& parts);
  void handle_error(const wire::message_header& header, const std::vector<zmq::message_t>& parts);

  // Sessions.
  void close(const session_closing& closing);
  /// Removes a session without requests in flight, and sends CLOSE.
  void release_session(const session_record& record);
  /// Ends a session and its requests in flight.
  void lose_session(const std::shared_ptr<session_record>& record, const std::string& reason, bool daemon_holds_it);
  void lose_all_sessions(const std::string& reason);
  void repeat_sessions(time_point now);
  /// True in a pause after NO_CREDIT, for the refused request of a session and those behind it.
  [[nodiscard]] bool is_paused(const pending_request& request) const;
  /// Sends these requests again, in this order.
  void resend_in_order(const std::vector<std::uint64_t>& ids, time_point now);
  void handle_gap(const std::shared_ptr<session_record>& record, std::uint64_t expected);
  void handle_session_error(pending_request& request, const wire::message_header& header, daemon_error&& error);

  // Shared memory.
  void request_arena(std::uint64_t need, time_point now);
  /// Sends ATTACH when the lease asks for an arena.
  void send_attach(time_point now);
  void update_arena(time_point now);
  void handle_attached(const std::vector<zmq::message_t>& parts);
  void handle_shared_result(const wire::message_header& header, const std::vector<zmq::message_t>& parts);
  void handle_released(std::uint64_t id);
  /// The daemon has refused where a request lies, not the request itself.
  void handle_place_refusal(pending_request& request, wire::status reason);
  /// The daemon was restarted: repeats go over the socket.
  void reset_arena();
  /// The lease has ended: sends the requests that lie in the arena again, over the socket.
  void lose_arena(const std::string& reason, time_point now);
  /// Makes all requests in flight use the socket from now on. Returns those that used an arena, in order.
  std::vector<std::uint64_t> detach_requests();
  /// A reply to a request that has ended here: frees its memory, unless the daemon `holds` it.
  void note_late_reply(std::uint64_t id, bool holds);
  /// Asks about ended requests whose memory the daemon may still use.
  void query_held_memory();

  void end_with_result(pending_request& request, result&& good);
  void end_with_error(pending_request& request, daemon_error&& reason);
  void finish(std::uint64_t id, outcome&& ended);
  void end(pending_request&& request, outcome&& ended) noexcept;
  [[nodiscard]] time_point expiry_of(const pending_request& request) const noexcept;

  client_options options_;
  credit_window& credits_;
  atomic_counters& counters_;
  dealer_socket socket_;
  handshake handshake_;
  request_table requests_;
  session_table sessions_;
  control_requests control_;
  subscription_table subscriptions_;
  arena_lease arena_;
  bool arena_readable_ = false;  ///< at the last `wait`
  /// Payloads of ended requests whose memory the daemon may still use, by request id.
  std::map<std::uint64_t, payload> held_payloads_;
  std::vector<zmq::message_t> parts_;
  time_point last_heard_;
  std::string failure_;  ///< why the thread has ended; "" while it runs
};

}  // namespace penstock::link
