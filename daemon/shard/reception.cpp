#include "daemon/shard/reception.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <span>
#include <utility>

#include "daemon/shard/welcome_bodies.hpp"
#include "daemon/socket/connection_rate.hpp"
#include "proto/control.hpp"

namespace penstock {

using wire::message_type;
using wire::status;

namespace {

using clock = std::chrono::steady_clock;

// So long a turn may work off what waits, and the message that is under way then.
constexpr auto control_slice = std::chrono::microseconds{50};

// What this thread has worked. By the clock, whoever else runs on its processor would be paid for too.
std::chrono::nanoseconds time_worked() noexcept {
  timespec worked{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &worked);
  return std::chrono::seconds{worked.tv_sec} + std::chrono::nanoseconds{worked.tv_nsec};
}

constexpr bool is_request(message_type type) noexcept {
  return type == message_type::submit || type == message_type::submit_shared;
}

// What a client may ask for once it has said HELLO.
constexpr std::array served = {message_type::submit,     message_type::submit_shared, message_type::attach,
                               message_type::cancel,     message_type::open_session,  message_type::close_session,
                               message_type::get_status, message_type::get_trace};

}  // namespace

wire::message_header reception::answer_to(const wire::message_header& question, message_type type) noexcept {
  wire::message_header header;
  header.type = type;
  header.request_id = question.request_id;
  return header;
}

reception::reception(parts with, const client_settings& limits, introduction self)
    : with_(with), limits_(limits), self_(std::move(self)), welcomes_(welcomes_of(with_.served, limits)) {
  set_expected_clients(limits.max_clients);
}

void reception::join(shard_directory& among, arena_keeper* keeper) {
  among_ = &among;
  keeper_ = keeper;
  welcomes_ = welcomes_of(with_.served, limits_);
}

std::vector<std::string> reception::welcomes_of(const served_pipelines& served, const client_settings& limits) const {
  const std::size_t shared = keeper_ != nullptr ? keeper_->max_client_bytes() : 0;
  return welcome_bodies({self_.server, self_.instance, self_.shard, among_, served, limits, shared});
}

std::size_t reception::receive(time_point now, std::size_t most, std::size_t most_control) {
  std::size_t taken = 0;
  const std::uint64_t before = control_taken_;
  while (taken < most && control_taken_ - before < most_control) {
    std::optional<incoming> message = with_.in.receive();
    if (!message) {
      break;
    }
    ++taken;
    ++with_.counters.received;
    handle(*message, now);
  }
  return taken;
}

void reception::handle(incoming& message, time_point now) {
  client_record* from = with_.clients.find(message.identity);
  if (from != nullptr) {
    from->last_heard = now;
    from->lost_since = never;
    // Who said GOODBYE is a stranger until its next HELLO: it is answered, but not in the name of the one that left.
    from = from->gone ? nullptr : from;
  }
  wire::message_header header;
  const verdict read = read_header(message, limits_, header);
  if (from != nullptr && read.admitted() && is_request(header.type)) {
    serve(message, header, *from, now, now);
  } else if (from == nullptr && read.admitted() && is_request(header.type)) {
    take_control(message, header, from, unknown_client());
  } else {
    take_control(message, header, from, read);
  }
}

verdict reception::unknown_client() const {
  return closed_.admitted() ? verdict{status::hello_required, "this client is not known: it must send HELLO first"}
                            : closed_;
}

void reception::take_control(const incoming& message, const wire::message_header& header, const client_record* from,
                             const verdict& judged) {
  ++control_taken_;
  if (judged.admitted() && header.type == message_type::goodbye) {
    // At once: what waits of a client that leaves is void.
    control_.discard(message.identity);
    if (client_record* const leaving = from != nullptr ? with_.clients.find(message.identity) : nullptr) {
      let_go(*leaving);
    }
    return;
  }
  const time_point came = clock::now();
  control_queue::account& payer = control_.account_of(message.identity, from != nullptr, came);
  // A CLOSE has no answer after which it would be sent again, and takes no longer than to wait.
  const bool closes = judged.admitted() && header.type == message_type::close_session;
  if (closes || control_.admits(payer, came)) {
    const std::chrono::nanoseconds before = time_worked();
    perform(message, header, with_.clients.find(message.identity), judged, came);
    control_.charge(payer, time_worked() - before);
    return;
  }
  park(payer, message, header, judged, came);
}

void reception::park(control_queue::account& payer, const incoming& message, const wire::message_header& header,
                     const verdict& judged, time_point came) {
  const bool has_body = judged.admitted() && wire::max_body_bytes_of(header.type) == wire::max_request_body_bytes;
  if (!control_.has_room(payer, message.identity.size(), has_body ? message.body.size() : 0)) {
    ++with_.counters.control_dropped;  // of a flood most are: nothing of them is copied
    return;
  }
  const auto* const body = reinterpret_cast<const char*>(message.body.data());
  const bool waits = control_.park(payer, {.identity = std::string(message.identity),
                                           .header = header,
                                           .body = has_body ? std::string(body, message.body.size()) : "",
                                           .judged = judged,
                                           .user = header.type == message_type::hello ? with_.in.user() : "",
                                           .connection = message.connection,
                                           .came = came});
  ++(waits ? with_.counters.control_delayed : with_.counters.control_dropped);
}

bool reception::work_off(bool idle) {
  if (control_.waiting() == 0) {
    return false;
  }
  const auto takes_long = [this](const waiting_message& what) {
    return what.judged.admitted() && (what.header.type == message_type::get_trace ||
                                      (what.header.type == message_type::get_status && what.came > status_at_));
  };
  const time_point begin = clock::now();
  time_point now = begin;
  bool any = false;
  while (const std::optional<waiting_message> next = control_.next(now, idle, takes_long)) {
    any = true;
    if (has_ended(next->connection)) {  // nobody is there to answer, or somebody else by the same routing id
      ++with_.counters.control_dropped;
      control_.done(std::chrono::nanoseconds{0}, now);
      continue;
    }
    incoming message;
    message.identity = next->identity;
    message.user = &next->user;
    message.connection = next->connection;
    message.body = std::as_bytes(std::span(next->body));
    const std::chrono::nanoseconds before = time_worked();
    perform(message, next->header, with_.clients.find(next->identity), next->judged, next->came);
    now = clock::now();
    control_.done(time_worked() - before, now);
    if (now - begin >= control_slice) {
      break;
    }
  }
  return any;
}

void reception::perform(const incoming& message, const wire::message_header& header, client_record* from,
                        const verdict& judged, time_point came) {
  from = from != nullptr && from->gone ? nullptr : from;
  if (!judged.admitted()) {
    refuse(message, from, header, judged);
  } else if (from != nullptr && is_request(header.type)) {  // one that was answered before
    if (with_.out.repeat(*from, header.request_id)) {
      ++with_.counters.repeats_answered;
    }
  } else if (header.type == message_type::hello) {
    welcome(message, header, clock::now());
  } else if (header.type == message_type::ping) {
    with_.out.control(message.identity, from, answer_to(header, message_type::pong), "");
  } else if (std::find(served.begin(), served.end(), header.type) == served.end()) {
    refuse(message, from, header,
           {status::unsupported_type,
            "a client may not send messages of type " + std::to_string(static_cast<int>(header.type))});
  } else if (from == nullptr) {
    refuse(message, from, header, unknown_client());
  } else {
    serve(message, header, *from, clock::now(), came);
  }
}

void reception::serve(const incoming& message, const wire::message_header& header, client_record& from, time_point now,
                      time_point came) {
  if (from.elsewhere && header.type != message_type::get_status) {
    settle_here(from);
  }
  switch (header.type) {
    case message_type::submit:
    case message_type::submit_shared:
      return submit(message, header, from, now);
    case message_type::attach:
      return attach(message, header, from);
    case message_type::cancel:
      return cancel(message, header, from);
    case message_type::open_session:
      return open_session(message, header, from, now);
    case message_type::close_session:
      return close_session(header, from);
    case message_type::get_trace:
      return send_trace(message, header, from);
    default:  // GET_STATUS, of those that are served
      send_status(message, header, from, came);
  }
}

// What was made after a question came answers it: many that wait get the same text.
void reception::send_status(const incoming& message, const wire::message_header& header, const client_record& to,
                            time_point came) {
  if (came > status_at_) {
    status_at_ = clock::now();
    status_ = self_.status_json();
  }
  with_.out.control(message.identity, &to, answer_to(header, message_type::status_report), status_);
}

void reception::send_trace(const incoming& message, const wire::message_header& header, const client_record& to) {
  const timeline_page page = self_.trace_page(header.sequence);
  wire::message_header answer = answer_to(header, message_type::trace_report);
  answer.sequence = page.next;
  with_.out.control(message.identity, &to, answer, page.json);
}

verdict reception::no_such_pipeline(std::uint32_t id, std::uint32_t session) const {
  const std::string removed = with_.served.why_removed(id);
  if (!removed.empty() && session != 0) {
    return {status::session_lost, "session " + std::to_string(session) + " is lost: " + removed};
  }
  return {status::unknown_pipeline, (removed.empty() ? "there is no pipeline " + std::to_string(id) : removed) +
                                        "; WELCOME lists " + std::to_string(with_.served.in_order.size())};
}

void reception::submit(const incoming& message, const wire::message_header& header, client_record& from,
                       time_point now) {
  // Ids count up as a rule, and a greater one than any before needs no search.
  if (header.request_id <= from.latest && take_repeat(message, header, from)) {
    return;
  }
  if (!closed_.admitted()) {
    take_control(message, header, &from, closed_);
    return;
  }
  const plan* const found = with_.served.find(header.pipeline);
  if (found == nullptr) {
    take_control(message, header, &from, no_such_pipeline(header.pipeline, header.session));
    return;
  }
  ledger::admitted what{.pipeline = found, .session = nullptr, .leading = 0, .bytes = 0, .shared = {}};
  what.session = header.session != 0 ? with_.sessions.find(header.session, from) : nullptr;
  const verdict judged = admit(message, header, from, what);
  if (!judged.admitted()) {
    wire::message_header about = header;
    about.sequence = judged.code == status::sequence_gap ? what.session->frames : header.sequence;
    take_control(message, about, &from, judged);
    return;
  }
  request& accepted = with_.book.open(from, header, what, now);
  if (!with_.path.submit(accepted, message.body)) {
    with_.in.park(message, accepted.index);
  }
}

// A repeat is never run twice while its first is in flight, and never refused for want of credits.
bool reception::take_repeat(const incoming& message, const wire::message_header& header, const client_record& from) {
  if (from.in_flight.find(header.request_id) != nullptr) {
    ++with_.counters.repeats_ignored;
    return true;
  }
  if (!with_.out.kept(from, header.request_id)) {
    return answer_held(header, from);
  }
  take_control(message, header, &from, {});
  return true;
}

verdict reception::admit(const incoming& message, const wire::message_header& header, client_record& from,
                         ledger::admitted& what) {
  const plan& pipeline = *what.pipeline;
  submitted given;
  verdict judged = check_submit(message, header, pipeline, given);
  if (judged.admitted()) {
    judged = check_session(header, what.session, pipeline, given.leading);
  }
  if (judged.code == status::session_lost) {
    if (const std::string why = with_.sessions.why_lost(header.session, from); !why.empty()) {
      judged = {status::session_lost, "session " + std::to_string(header.session) + " is lost: " + why};
    }
  }
  if (judged.admitted() && header.type == message_type::submit_shared) {
    judged = find_shared(message, header, from, given, what);
  }
  if (judged.admitted() && pipeline.keeps_state()) {
    judged = check_abandoned(from);
  }
  if (judged.admitted()) {
    judged = make_room(from, pipeline, header.type == message_type::submit ? given.bytes : 0);
  }
  what.leading = given.leading;
  what.bytes = given.bytes;
  return judged;
}

// With drop-oldest, a request beyond the credits takes the place of the client's oldest ones that still wait.
verdict reception::make_room(client_record& from, const plan& pipeline, std::size_t bytes) {
  verdict judged = check_credits(from, bytes);
  if (pipeline.declaration.overflow != overflow_policy::drop_oldest || bytes > from.granted_bytes) {
    return judged;
  }
  while (!judged.admitted()) {
    request* const oldest = with_.path.oldest_queued(from, pipeline);
    if (oldest == nullptr) {
      break;
    }
    with_.path.end(*oldest, status::overflow, "dropped for a newer request of the same client");
    judged = check_credits(from, bytes);
  }
  return judged;
}

void reception::cancel(const incoming& message, const wire::message_header& header, client_record& from) {
  if (request* const found = from.in_flight.find(header.request_id)) {
    with_.path.end(*found, status::cancelled, "cancelled by the client");
  } else if (!with_.out.repeat(from, header.request_id) && !answer_held(header, from)) {
    refuse(message, &from, header, {status::rejected, "there is no such request to cancel"});
  }
}

void reception::refuse(const incoming& message, const client_record* from, const wire::message_header& header,
                       const verdict& why) {
  ++with_.counters.refused[why.code];
  with_.out.refuse(message.identity, from, header, why.code,
                   {.reason = std::string(why.reason()), .step = "ingress", .stage = "", .device_error = ""});
}

void reception::close(wire::status code, std::string reason) {
  closed_ = {code, std::move(reason)};
}

}  // namespace penstock
