// Sessions at the reception: OPEN and CLOSE.
#include <optional>
#include <string>

#include "daemon/shard/reception.hpp"

namespace penstock {

using wire::status;

void reception::open_session(const incoming& message, const wire::message_header& header, const client_record& from,
                             time_point now) {
  const std::optional<wire::open_session> asked = wire::decode_open_session(message.body);
  if (!asked) {
    refuse(message, &from, header,
           {status::malformed, "the body of OPEN can't be read: " + wire::fault_of_request(header.type, message.body)});
    return;
  }
  if (!closed_.admitted()) {
    refuse(message, &from, header, closed_);
    return;
  }
  const plan* const pipeline = with_.served.find(asked->pipeline);
  if (pipeline == nullptr) {
    refuse(message, &from, header, no_such_pipeline(asked->pipeline));
    return;
  }
  const session_record* opened = with_.sessions.open(from, *pipeline, asked->name, now);
  while (opened == nullptr && !with_.sessions.full(from) && free_session_place(now)) {
    opened = with_.sessions.open(from, *pipeline, asked->name, now);
  }
  if (opened == nullptr) {
    if (!with_.sessions.full(from)) {
      note_refusal(session_places_, now);
    }
    refuse(message, &from, header,
           {status::too_many_sessions, with_.sessions.full(from)
                                           ? "this client has as many sessions open as it may (sessions.max_per_client)"
                                           : "all " + std::to_string(with_.sessions.places()) +
                                                 " places for sessions are taken (sessions.max_sessions)"});
    return;
  }
  wire::message_header answer;
  answer.type = wire::message_type::session_opened;
  answer.request_id = header.request_id;
  answer.session = opened->number;
  answer.sequence = opened->frames;
  with_.out.control(message.identity, &from, answer,
                    wire::encode(wire::session_opened{.session = opened->number, .next_sequence = opened->frames}));
}

void reception::close_session(const wire::message_header& header, const client_record& from) {
  if (session_record* const done = with_.sessions.find(header.session, from)) {
    session_table::close(*done);
  }
}

}  // namespace penstock
