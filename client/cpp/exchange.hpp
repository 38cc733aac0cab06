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
#include "client/cpp/credit_gate.hpp"
#include "client/cpp/dealer_socket.hpp"
#include "client/cpp/greeting.hpp"
#include "client/cpp/post_box.hpp"
#include "client/cpp/reply_reader.hpp"
#include "client/cpp/request_table.hpp"
#include "client/cpp/session_book.hpp"

namespace penstock::link {

/// Counters of one client. Writer: the connection's thread (`submitted`, `shared`, `unshared`: callers). Readers: any
/// thread. Relaxed: each stands for itself.
struct atomic_counters {
  std::atomic<std::uint64_t> submitted{0};
  std::atomic<std::uint64_t> results{0};
  std::atomic<std::uint64_t> errors{0};
  std::atomic<std::uint64_t> sent_again{0};
  std::atomic<std::uint64_t> hellos{0};
  std::atomic<std::uint64_t> unmatched_replies{0};
  std::atomic<std::uint64_t> malformed_replies{0};
  std::atomic<std::uint64_t> shared{0};
  std::atomic<std::uint64_t> thrown{0};
  std::atomic<std::uint64_t> unshared{0};

  static void count(std::atomic<std::uint64_t>& counter) noexcept { counter.fetch_add(1, std::memory_order_relaxed); }
};

/// Whom an exchange tells about the daemon's answers to HELLO.
struct greeting_listener {
  std::function<void(const std::string& url)> moved;  ///< to the client's shard, before its welcome
  std::function<void(std::shared_ptr<const catalogue>)> welcomed;
  std::function<void(const request_error&)> refused;
  /// The connection's handshake failed; `for_good` when trying again can't help.
  std::function<void(const std::string& why, bool for_good)> shut_out;
};

/// The conversation with the daemon: what is sent, what comes back, and what is done about silence.
/// Thread: the connection's alone.
class exchange {
 public:
  exchange(const client_options& options, credit_gate& credits, arena_slot& arenas, atomic_counters& counters,
           greeting_listener listener);

  void perform(command&& what, time_point now);
  /// Takes what has arrived, at most `most` messages. Whether there may be more.
  bool receive(int most);
  /// Does what is due: greetings, repeats, expiries.
  void tend(time_point now);
  /// Until when there is nothing to do unless something arrives.
  [[nodiscard]] time_point next_due() const;
  /// Sleeps until a message, word of the arena, the descriptor or next_due.
  void wait(int descriptor);
  /// Says goodbye and ends everything in flight.
  void close();
  /// Ends everything in flight for that reason, and what is still to come.
  void fail(const std::string& why);
  /// Ends a command that was never performed.
  void refuse(command&& what);

 private:
  void accept(pending_request&& what, time_point now);
  void cancel(std::uint64_t id);
  /// Sends it, where there is a connection and it is not held back.
  void send(pending_request& what, time_point now);
  void send_again(pending_request& what, time_point now);
  void ask(probe& what);
  void tend_request(pending_request& what, time_point now);
  /// Ends it when nobody has answered in time; whether it has.
  bool expire(const pending_request& what, time_point now);
  void tend_probes(time_point now);
  /// Sends everything in flight again, in its order: what was sent before is lost.
  void send_all_again(time_point now);
  void say_goodbye();
  void end_all();
  [[nodiscard]] request_error closed_error() const;
  /// Whether this client belongs to another shard, whose welcome is awaited now.
  [[nodiscard]] bool move_to_shard(const wire::welcome& body);
  void note_change(dealer_socket::change what, time_point now);
  /// Looks the request's pipeline up in the newest catalogue; false, and the request has ended, when it does not fit.
  bool renew(pending_request& what);

  void handle(std::vector<zmq::message_t>& parts);
  void handle_welcome(const std::vector<zmq::message_t>& parts);
  void handle_result(const wire::message_header& header, std::vector<zmq::message_t>& parts);
  void handle_error(const wire::message_header& header, const std::vector<zmq::message_t>& parts);
  void handle_answer(const wire::message_header& header, const std::vector<zmq::message_t>& parts);

  // Sessions: exchange_sessions.cpp.
  void open(session_opening&& what, time_point now);
  void send(session_opening& what, time_point now);
  void tend_openings(time_point now);
  void handle_opened(const wire::message_header& header, const std::vector<zmq::message_t>& parts);
  void close(const session_closing& what);
  /// Forgets a session of which nothing is in flight, and tells the daemon.
  void let_go(const session_record& record);
  /// Ends the session and its requests in flight.
  void lose(const std::shared_ptr<session_record>& record, const std::string& why, bool daemon_holds_it);
  void lose_all(const std::string& why);
  void repeat_sessions(time_point now);
  /// Whether it is not to be sent now: the daemon had no room for it, or for one before it in its session.
  [[nodiscard]] bool held_back(const pending_request& what) const;
  /// Sends these requests again, in this order.
  void send_line(const std::vector<std::uint64_t>& ids, time_point now);
  void handle_gap(const std::shared_ptr<session_record>& record, std::uint64_t expected);
  void handle_session_error(pending_request& what, const wire::message_header& header, daemon_error&& error);

  // Shared memory: exchange_arena.cpp.
  void want_arena(std::uint64_t need, time_point now);
  /// Sends ATTACH where an arena is wanted.
  void ask_for_arena(time_point now);
  void tend_arena(time_point now);
  void handle_attached(const std::vector<zmq::message_t>& parts);
  void handle_shared_result(const wire::message_header& header, const std::vector<zmq::message_t>& parts);
  void handle_released(std::uint64_t id);
  /// The daemon has refused a request's way through the arena, and not the request.
  void handle_detour(pending_request& what, wire::status why);
  /// The daemon was restarted: what is in flight goes over the socket when it is sent again.
  void forget_arena();
  /// The lease has ended: what is in flight is sent again, over the socket.
  void lose_arena(const std::string& why, time_point now);
  /// No request in flight goes through the arena, which has ended, any more. Those that did, in their order.
  std::vector<std::uint64_t> leave_arena();
  /// A reply to a request that has ended here: its place in the arena is free, unless the daemon `holds` it.
  void note_late_reply(std::uint64_t id, bool holds);
  /// Asks what has become of requests that ended here while the daemon had their place in the arena.
  void ask_for_places();

  void end_well(pending_request& what, result&& good);
  void end_badly(pending_request& what, daemon_error&& why);
  void finish(std::uint64_t id, outcome&& how);
  void end(pending_request&& what, outcome&& how) noexcept;
  [[nodiscard]] time_point expiry_of(const pending_request& what) const noexcept;

  client_options options_;
  credit_gate& credits_;
  atomic_counters& counters_;
  greeting_listener listener_;
  dealer_socket socket_;
  greeting greeting_;
  std::shared_ptr<const catalogue> catalogue_;
  request_table requests_;
  std::map<std::uint64_t, probe> probes_;
  std::map<std::uint64_t, session_opening> openings_;
  session_book sessions_;
  arena_lease arena_;
  bool arena_stirs_ = false;  ///< its descriptor was readable
  /// What the daemon still has a place in the arena of, although its request has ended here.
  std::map<std::uint64_t, payload> held_;
  bool placed_ = false;  ///< this client's shard is settled
  std::string token_;    ///< brings this client back to its place over another connection; "" before the first welcome
  std::vector<zmq::message_t> parts_;
  time_point last_heard_;
  std::string failure_;  ///< why the thread could not go on; "" while it does
};

}  // namespace penstock::link
