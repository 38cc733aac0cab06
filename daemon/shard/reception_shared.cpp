// Shared memory at the reception: ATTACH, and where a SUBMIT_SHARED says that its frames lie.
#include <algorithm>
#include <optional>
#include <string>

#include "daemon/shard/reception.hpp"

namespace penstock {

using wire::status;

void reception::attach(const incoming& message, const wire::message_header& header, const client_record& from) {
  const std::optional<wire::attach> asked = wire::decode_attach(message.body);
  if (!asked || asked->bytes == 0) {
    refuse(
        message, &from, header,
        {status::malformed, "the body of ATTACH can't be read: " + wire::fault_of_request(header.type, message.body)});
    return;
  }
  if (!closed_.admitted()) {
    refuse(message, &from, header, closed_);
    return;
  }
  if (keeper_ == nullptr) {
    refuse(message, &from, header, {status::rejected, "this daemon shares no memory (shared_memory.max_bytes)"});
    return;
  }
  const std::size_t most = keeper_->max_client_bytes();
  if (from.arenas.size() >= arena_keeper::most_of_a_client) {
    refuse(message, &from, header,
           {status::rejected, "a client may have " + std::to_string(arena_keeper::most_of_a_client) + " arenas"});
    return;
  }
  if (asked->bytes > most - std::min(most, from.arena_bytes())) {
    refuse(message, &from, header,
           {status::too_large, "a client may share " + std::to_string(most) +
                                   " bytes (shared_memory.max_client_bytes), and this one shares " +
                                   std::to_string(from.arena_bytes())});
    return;
  }
  const std::string ticket = keeper_->issue({.shard = self_.shard,
                                             .client = std::to_string(from.number),
                                             .incarnation = from.incarnation,
                                             .bytes = static_cast<std::size_t>(asked->bytes)});
  if (ticket.empty()) {
    refuse(
        message, &from, header,
        {status::rejected,
         "just now there is no memory to share (shared_memory.max_bytes), or this client has tickets that it has not "
         "used"});
    return;
  }
  wire::message_header answer;
  answer.type = wire::message_type::attached;
  answer.request_id = header.request_id;
  with_.out.control(message.identity, &from, answer,
                    wire::encode(wire::attached{.socket = keeper_->socket(), .ticket = ticket}));
}

bool reception::answer_held(const wire::message_header& header, const client_record& from) {
  if (std::find(from.held.begin(), from.held.end(), header.request_id) == from.held.end()) {
    return false;
  }
  ++with_.counters.repeats_answered;
  with_.out.refuse(from.identity, &from, header, status::cancelled,
                   {.reason = "the request has ended before; its memory is still in use",
                    .step = "executing",
                    .stage = "",
                    .device_error = "",
                    .holds = true});
  return true;
}

bool reception::admit_arena(const arena_order& by, client_arena& what) {
  client_record* const client = with_.clients.find_incarnation(by.incarnation);
  if (client == nullptr || client->gone) {
    what.drop();
    return false;
  }
  client->arenas.push_back(&what);
  return true;
}

void reception::evict_arena(std::uint32_t number) {
  bool found = false;
  with_.clients.for_each([&](client_record& each) { found = found || each.leave_arena(number); });
}

verdict reception::find_shared(const incoming& message, const wire::message_header& header, const client_record& from,
                               const submitted& given, ledger::admitted& what) {
  wire::shared_place place;
  if (!wire::decode(message.body, place)) {
    return {status::malformed, "the place of a SUBMIT_SHARED has " + std::to_string(wire::shared_place_bytes) +
                                   " bytes; this one has " + std::to_string(message.body.size())};
  }
  // In a session the sequence says whether it has run.
  if (place.repeat && what.session == nullptr) {
    return {status::unknown_repeat, "a request of this id is neither in flight nor kept; it was not run again"};
  }
  return find_place(from, place, *what.pipeline, what.session, given, header.frames, what.shared);
}

}  // namespace penstock
