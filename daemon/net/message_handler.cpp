#include "daemon/net/message_handler.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <optional>
#include <span>
#include <utility>

#include "daemon/net/connection_limits.hpp"
#include "proto/control.hpp"

namespace penstock {

using wire::message_type;
using wire::status;

namespace {

using clock = std::chrono::steady_clock;

// A turn handles deferred messages for this long, and finishes the one that it has begun.
constexpr auto control_slice = std::chrono::microseconds{50};

// The processor time of this thread. Wall-clock time would charge a client for other threads on the same processor.
std::chrono::nanoseconds time_worked() noexcept {
  timespec worked{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &worked);
  return std::chrono::seconds{worked.tv_sec} + std::chrono::nanoseconds{worked.tv_nsec};
}

constexpr bool is_request(message_type type) noexcept {
  return type == message_type::submit || type == message_type::submit_shared;
}

// What a client may send after HELLO.
constexpr std::array served = {message_type::submit,    message_type::submit_shared, message_type::attach,
                               message_type::cancel,    message_type::open_session,  message_type::close_session,
                               message_type::subscribe, message_type::unsubscribe,   message_type::get_status,
                               message_type::get_trace, message_type::set_values,    message_type::get_values};

wire::message_header answer_to(const wire::message_header& question, message_type type) noexcept {
  wire::message_header header;
  header.type = type;
  header.request_id = question.request_id;
  return header;
}

}  // namespace

std::size_t message_handler::receive(time_point now, std::size_t most, std::size_t most_control) {
  std::size_t taken = 0;
  const std::uint64_t before = control_taken_;
  while (taken < most && control_taken_ - before < most_control) {
    std::optional<incoming> message = parts_.reader.receive();
    if (!message) {
      break;
    }
    ++taken;
    ++parts_.counters.received;
    handle(*message, now);
  }
  return taken;
}

// A sender that said GOODBYE is a stranger until its next HELLO: it is answered, but not as the client that left.
void message_handler::handle(incoming& message, time_point now) {
  client_record* const client = parts_.clients.heard(message.identity, now);
  wire::message_header header;
  const verdict read = read_header(message, parts_.clients.limits(), header);
  if (!read.admitted() || !is_request(header.type)) {
    handle_control(message, header, client, read);
  } else if (client == nullptr) {
    handle_control(message, header, client, unknown_client());
  } else {
    serve(message, header, *client, now, now);
  }
}

void message_handler::submit(incoming& message, const wire::message_header& header, client_record& client,
                             time_point now) {
  const admission::decision decided = admission_.decide(message, header, client);
  switch (decided.result) {
    case admission::outcome::accepted:
      break;
    case admission::outcome::refused: {
      wire::message_header about = header;
      about.sequence = decided.sequence;
      return handle_control(message, about, &client, decided.refusal);
    }
    case admission::outcome::repeat_in_flight:
      ++parts_.counters.repeats_ignored;
      return;
    case admission::outcome::repeat_finished:
      return handle_control(message, header, &client, {});
    case admission::outcome::repeat_held:
      return answer_held(header, client);
  }
  if (!message.more.empty()) {
    parts_.reader.join_payloads(message);
  }
  request& accepted = parts_.tracker.open(client, header, decided.submission, now);
  if (parts_.subscribers.wants_requests()) {
    parts_.subscribers.publish_request(accepted, message.body);
  }
  if (parts_.scheduling.submit(accepted, message.body) != submit_outcome::batched) {
    parts_.reader.keep_payload(message, accepted.index);
  }
}

verdict message_handler::unknown_client() const {
  return admission_.closed().admitted()
             ? verdict{status::hello_required, "this client is not known: it must send HELLO first"}
             : admission_.closed();
}

void message_handler::handle_control(incoming& message, const wire::message_header& header, const client_record* client,
                                     const verdict& judged) {
  ++control_taken_;
  if (judged.admitted() && header.type == message_type::goodbye) {
    // At once: the deferred messages of a client that leaves are void.
    control_.discard(message.identity);
    if (client_record* const leaving = client != nullptr ? parts_.clients.find(message.identity) : nullptr) {
      parts_.clients.leave(*leaving);
    }
    return;
  }
  const time_point came = clock::now();
  control_queue::account& payer = control_.account_of(message.identity, client != nullptr, came);
  // CLOSE has no answer that would make its client send it again, and takes no longer than deferring it.
  const bool closes = judged.admitted() && header.type == message_type::close_session;
  if (closes || control_.admits(payer, came)) {
    const std::chrono::nanoseconds before = time_worked();
    answer(message, header, parts_.clients.find(message.identity), judged, came);
    control_.charge(payer, time_worked() - before);
    return;
  }
  defer(payer, message, header, judged, came);
}

void message_handler::defer(control_queue::account& payer, const incoming& message, const wire::message_header& header,
                            const verdict& judged, time_point came) {
  const bool has_body = judged.admitted() && wire::max_body_bytes_of(header.type) == wire::max_request_body_bytes;
  if (!control_.has_room(payer, message.identity.size(), has_body ? message.body.size() : 0)) {
    ++parts_.counters.control_dropped;  // as most messages of a flood are, so nothing of them is copied
    return;
  }
  const auto* const body = reinterpret_cast<const char*>(message.body.data());
  const bool waits = control_.park(payer, {.identity = std::string(message.identity),
                                           .header = header,
                                           .body = has_body ? std::string(body, message.body.size()) : "",
                                           .judged = judged,
                                           .user = header.type == message_type::hello ? parts_.reader.user() : "",
                                           .connection = message.connection,
                                           .came = came});
  ++(waits ? parts_.counters.control_delayed : parts_.counters.control_dropped);
}

bool message_handler::handle_deferred(bool idle) {
  if (control_.waiting() == 0) {
    return false;
  }
  const auto takes_long = [this](const waiting_message& waiting) {
    return waiting.judged.admitted() &&
           (waiting.header.type == message_type::get_trace ||
            (waiting.header.type == message_type::get_status && waiting.came > status_at_));
  };
  const time_point begin = clock::now();
  time_point now = begin;
  bool any = false;
  while (const std::optional<waiting_message> next = control_.next(now, idle, takes_long)) {
    any = true;
    if (has_ended(next->connection)) {  // nobody can be answered, or another client with the same routing id
      ++parts_.counters.control_dropped;
      control_.done(std::chrono::nanoseconds{0}, now);
      continue;
    }
    incoming message;
    message.identity = next->identity;
    message.user = &next->user;
    message.connection = next->connection;
    message.body = std::as_bytes(std::span(next->body));
    const std::chrono::nanoseconds before = time_worked();
    answer(message, next->header, parts_.clients.find(next->identity), next->judged, next->came);
    now = clock::now();
    control_.done(time_worked() - before, now);
    if (now - begin >= control_slice) {
      break;
    }
  }
  return any;
}

void message_handler::answer(incoming& message, const wire::message_header& header, client_record* client,
                             const verdict& judged, time_point came) {
  if (!judged.admitted()) {
    refuse(message, client, header, judged);
  } else if (client != nullptr && is_request(header.type)) {  // a repeat of one that is answered
    if (parts_.replies.repeat(*client, header.request_id)) {
      ++parts_.counters.repeats_answered;
    }
  } else if (header.type == message_type::hello) {
    connect(message, header, clock::now());
  } else if (header.type == message_type::ping) {
    parts_.replies.control(message.identity, client, answer_to(header, message_type::pong), "");
  } else if (std::find(served.begin(), served.end(), header.type) == served.end()) {
    refuse(message, client, header,
           {status::unsupported_type,
            "a client may not send messages of type " + std::to_string(static_cast<int>(header.type))});
  } else if (client == nullptr) {
    refuse(message, client, header, unknown_client());
  } else {
    serve(message, header, *client, clock::now(), came);
  }
}

void message_handler::serve(incoming& message, const wire::message_header& header, client_record& client,
                            time_point now, time_point came) {
  if (client.elsewhere && header.type != message_type::get_status) {
    parts_.clients.settle(client);
  }
  switch (header.type) {
    case message_type::submit:
    case message_type::submit_shared:
      return submit(message, header, client, now);
    case message_type::attach:
      return attach(message, header, client);
    case message_type::cancel:
      return cancel(message, header, client);
    case message_type::open_session:
      return open_session(message, header, client, now);
    case message_type::close_session:
      return close_session(header, client);
    case message_type::subscribe:
      return subscribe(message, header, client);
    case message_type::unsubscribe:
      return parts_.subscribers.unsubscribe(client, header.request_id);
    case message_type::get_trace:
      return send_trace(message, header, client);
    case message_type::set_values:
      return set_values(message, header, client);
    case message_type::get_values:
      return get_values(message, header, client);
    default:  // GET_STATUS is the only other type in `served`
      send_status(message, header, client, came);
  }
}

void message_handler::connect(const incoming& message, const wire::message_header& header, time_point now) {
  const std::optional<wire::hello> hello = wire::decode_hello(message.body);
  if (!hello) {
    refuse(
        message, nullptr, header,
        {status::malformed, "the body of HELLO can't be read: " + wire::fault_of_request(header.type, message.body)});
    return;
  }
  if (!admission_.closed().admitted()) {
    refuse(message, nullptr, header, admission_.closed());
    return;
  }
  // For a deferred message libzmq no longer has it.
  const std::string user = message.user != nullptr ? *message.user : parts_.reader.user();
  const verdict judged = parts_.clients.connect(message, *hello, user, header.request_id, now);
  if (!judged.admitted()) {
    refuse(message, nullptr, header, judged);
  }
}

void message_handler::cancel(const incoming& message, const wire::message_header& header, client_record& client) {
  if (request* const found = client.in_flight.find(header.request_id)) {
    parts_.scheduling.end(*found, status::cancelled, "cancelled by the client");
  } else if (parts_.replies.repeat(client, header.request_id)) {
    return;
  } else if (admission::is_held(client, header.request_id)) {
    answer_held(header, client);
  } else {
    refuse(message, &client, header, {status::rejected, "there is no such request to cancel"});
  }
}

void message_handler::open_session(const incoming& message, const wire::message_header& header,
                                   const client_record& client, time_point now) {
  const std::optional<wire::open_session> asked = wire::decode_open_session(message.body);
  if (!asked) {
    refuse(message, &client, header,
           {status::malformed, "the body of OPEN can't be read: " + wire::fault_of_request(header.type, message.body)});
    return;
  }
  if (!admission_.closed().admitted()) {
    refuse(message, &client, header, admission_.closed());
    return;
  }
  const plan* const pipeline = parts_.served.find(asked->pipeline);
  if (pipeline == nullptr) {
    refuse(message, &client, header, admission_.no_such_pipeline(asked->pipeline));
    return;
  }
  session_record* const opened = parts_.clients.open_session(client, *pipeline, asked->name, now);
  if (opened == nullptr) {
    refuse(message, &client, header,
           {status::too_many_sessions, parts_.sessions.full(client)
                                           ? "this client has as many sessions open as it may (sessions.max_per_client)"
                                           : "all " + std::to_string(parts_.sessions.places()) +
                                                 " places for sessions are taken (sessions.max_sessions)"});
    return;
  }
  if (pipeline->is_tuned() && opened->numbers == nullptr) {
    parts_.numbers.begin(*opened);
  }
  wire::message_header reply = answer_to(header, message_type::session_opened);
  reply.session = opened->number;
  reply.sequence = opened->frames;
  parts_.replies.control(
      message.identity, &client, reply,
      wire::encode(wire::session_opened{.session = opened->number, .next_sequence = opened->frames}));
}

void message_handler::close_session(const wire::message_header& header, const client_record& client) {
  if (session_record* const done = parts_.sessions.find(header.session, client)) {
    session_table::close(*done);
  }
}

session_record* message_handler::session_of(const incoming& message, const wire::message_header& header,
                                            const client_record& client) {
  session_record* const found = parts_.sessions.find(header.session, client);
  if (found == nullptr) {
    const std::string why = parts_.sessions.why_lost(header.session, client);
    refuse(message, &client, header,
           {status::session_lost, why.empty() ? "this client has no session " + std::to_string(header.session)
                                              : "session " + std::to_string(header.session) + " is lost: " + why});
  }
  return found;
}

void message_handler::set_values(const incoming& message, const wire::message_header& header,
                                 const client_record& client) {
  const std::optional<wire::set_values> wanted = wire::decode_set_values(message.body);
  if (!wanted) {
    refuse(message, &client, header,
           {status::malformed, "the body of SET can't be read: " + wire::fault_of_request(header.type, message.body)});
    return;
  }
  session_record* const session = session_of(message, header, client);
  if (session == nullptr) {
    return;
  }
  if (tuning_verdict judged = parts_.numbers.set(*session, wanted->values); !judged.accepted()) {
    refuse(message, &client, header, {judged.code, std::move(judged.reason)});
    return;
  }
  get_values(message, header, client);
}

void message_handler::get_values(const incoming& message, const wire::message_header& header,
                                 const client_record& client) {
  wire::message_header reply = answer_to(header, message_type::values);
  if (header.session != 0) {
    if (const session_record* const session = session_of(message, header, client)) {
      reply.session = session->number;
      reply.sequence = session->frames;
      parts_.replies.control(message.identity, &client, reply, wire::encode(parts_.numbers.report(*session)));
    }
    return;
  }
  const plan* const pipeline = parts_.served.find(header.pipeline);
  if (pipeline == nullptr) {
    refuse(message, &client, header, admission_.no_such_pipeline(header.pipeline));
    return;
  }
  parts_.replies.control(message.identity, &client, reply, wire::encode(parts_.numbers.report(*pipeline)));
}

void message_handler::subscribe(const incoming& message, const wire::message_header& header, client_record& client) {
  const std::optional<wire::subscribe> wanted = wire::decode_subscribe(message.body);
  if (!wanted) {
    refuse(message, &client, header,
           {status::malformed,
            "the body of SUBSCRIBE can't be read: " + wire::fault_of_request(header.type, message.body)});
    return;
  }
  if (!admission_.closed().admitted()) {
    refuse(message, &client, header, admission_.closed());
    return;
  }
  wire::subscribed granted;
  if (const verdict judged = parts_.subscribers.subscribe(client, header.request_id, *wanted, granted);
      !judged.admitted()) {
    refuse(message, &client, header, judged);
    return;
  }
  parts_.replies.control(message.identity, &client, answer_to(header, message_type::subscribed), wire::encode(granted));
}

void message_handler::attach(const incoming& message, const wire::message_header& header, const client_record& client) {
  const std::optional<wire::attach> asked = wire::decode_attach(message.body);
  if (!asked || asked->bytes == 0) {
    refuse(
        message, &client, header,
        {status::malformed, "the body of ATTACH can't be read: " + wire::fault_of_request(header.type, message.body)});
    return;
  }
  if (!admission_.closed().admitted()) {
    refuse(message, &client, header, admission_.closed());
    return;
  }
  if (shm_server_ == nullptr) {
    refuse(message, &client, header, {status::rejected, "this daemon shares no memory (shared_memory.max_bytes)"});
    return;
  }
  const arena_memory memory = asked->device ? arena_memory::device : arena_memory::host;
  const std::size_t most = asked->device ? parts_.clients.device_bytes() : shm_server_->max_client_bytes();
  if (most == 0) {
    refuse(message, &client, header,
           {status::rejected,
            "this daemon shares no device memory: it has no GPU that could, or "
            "shared_memory.max_device_bytes is 0"});
    return;
  }
  if (client.arenas.size() >= shm_server::most_of_a_client) {
    refuse(message, &client, header,
           {status::rejected, "a client may have " + std::to_string(shm_server::most_of_a_client) + " arenas"});
    return;
  }
  if (asked->bytes > most - std::min(most, client.shared_bytes(memory))) {
    refuse(message, &client, header,
           {status::too_large, "a client may share " + std::to_string(most) +
                                   " bytes (shared_memory.max_client_bytes), and this one shares " +
                                   std::to_string(client.shared_bytes(memory))});
    return;
  }
  const std::string ticket = shm_server_->issue({.shard = shard_,
                                                 .client = std::to_string(client.number),
                                                 .incarnation = client.incarnation,
                                                 .bytes = static_cast<std::size_t>(asked->bytes),
                                                 .memory = memory});
  if (ticket.empty()) {
    refuse(message, &client, header,
           {status::rejected, std::string("just now there is no memory to share (shared_memory.") +
                                  (asked->device ? "max_device_bytes" : "max_bytes") +
                                  "), or this client has tickets that it has not used"});
    return;
  }
  parts_.replies.control(message.identity, &client, answer_to(header, message_type::attached),
                         wire::encode(wire::attached{.socket = shm_server_->socket(), .ticket = ticket}));
}

// A report answers every question that came before it was made, so many that wait get the same text.
void message_handler::send_status(const incoming& message, const wire::message_header& header,
                                  const client_record& client, time_point came) {
  if (came > status_at_) {
    status_at_ = clock::now();
    status_ = reports_.status_json();
  }
  parts_.replies.control(message.identity, &client, answer_to(header, message_type::status_report), status_);
}

void message_handler::send_trace(const incoming& message, const wire::message_header& header,
                                 const client_record& client) {
  const timeline_page page = reports_.trace_page(header.sequence);
  wire::message_header reply = answer_to(header, message_type::trace_report);
  reply.sequence = page.next;
  parts_.replies.control(message.identity, &client, reply, page.json);
}

void message_handler::answer_held(const wire::message_header& header, const client_record& client) {
  ++parts_.counters.repeats_answered;
  parts_.replies.refuse(client.identity, &client, header, status::cancelled,
                        {.reason = "the request has ended before; its memory is still in use",
                         .step = "executing",
                         .stage = "",
                         .device_error = "",
                         .holds = true});
}

void message_handler::refuse(const incoming& message, const client_record* client, const wire::message_header& header,
                             const verdict& refusal) {
  ++parts_.counters.refused[refusal.code];
  parts_.replies.refuse(message.identity, client, header, refusal.code,
                        {.reason = std::string(refusal.reason()), .step = "ingress", .stage = "", .device_error = ""});
}

}  // namespace penstock
