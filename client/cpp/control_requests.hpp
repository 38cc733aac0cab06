#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <penstock/client_options.hpp>

#include "client/cpp/command_queue.hpp"
#include "client/cpp/dealer_socket.hpp"
#include "client/cpp/handshake.hpp"
#include "client/cpp/session_table.hpp"

namespace penstock::link {

/// The requests in flight that carry no frames: probes (PING, GET_STATUS, GET_TRACE), each sent once, and OPENs, which
/// are repeated until the deadline. Thread: the connection's.
class control_requests {
 public:
  /// All references must outlive this.
  control_requests(const client_options& options, dealer_socket& socket, handshake& handshake, session_table& sessions,
                   atomic_counters& counters)
      : options_(options), socket_(socket), handshake_(handshake), sessions_(sessions), counters_(counters) {}

  void ask(probe&& question);
  /// Fails the opening when this client has, or opens, a session of that name on that pipeline.
  void open(session_opening&& opening, time_point now);
  /// A session has ended: an opening that waited for its name can be sent.
  void send_unsent_openings(time_point now);
  /// What was sent before may be lost.
  void send_all_again(time_point now);

  /// Sends repeats and ends what has expired. `last_heard`: arrival of the last message.
  void tend(time_point now, time_point last_heard);
  /// When `tend` has to be called; `never` when nothing is in flight.
  [[nodiscard]] time_point next_due() const;

  /// PONG, STATUS or TRACE.
  void handle_answer(const wire::message_header& header, const std::vector<zmq::message_t>& parts);
  /// OPENED.
  void handle_opened(const wire::message_header& header, const std::vector<zmq::message_t>& parts);
  /// False when no control request has that id; `error` is then unchanged.
  [[nodiscard]] bool handle_error(std::uint64_t id, request_error& error);
  void end_all(const request_error& error);

 private:
  void send(probe& question);
  void send(session_opening& opening, time_point now);
  void expire_probes(time_point now);
  void repeat_openings(time_point now, time_point last_heard);

  const client_options& options_;
  dealer_socket& socket_;
  handshake& handshake_;
  session_table& sessions_;
  atomic_counters& counters_;
  std::map<std::uint64_t, probe> probes_;
  std::map<std::uint64_t, session_opening> openings_;
};

}  // namespace penstock::link
