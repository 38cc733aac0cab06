#include "client/cpp/protocol_engine.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "client/cpp/errors.hpp"
#include "client/cpp/messages.hpp"

namespace penstock::link {
namespace {

time_point clock_now() noexcept {
  return std::chrono::steady_clock::now();
}

}  // namespace

protocol_engine::protocol_engine(const client_options& options, credit_window& credits, published_arena& arenas,
                                 atomic_counters& counters, handshake_listener listener)
    : options_(options),
      credits_(credits),
      counters_(counters),
      socket_(options),
      handshake_(options_, socket_, credits, counters, std::move(listener)),
      control_(options_, socket_, handshake_, sessions_, counters),
      subscriptions_(options_, socket_, handshake_, counters),
      arena_(arenas, options.shared_at_first, options.retry_after, options.retry_limit),
      last_heard_(clock_now()) {}

request_error protocol_engine::closed_error() const {
  return failure_.empty() ? local_error(wire::status::shutdown, "the client was closed before a reply came")
                          : local_error(wire::status::failed, "the client's thread has ended: " + failure_);
}

void protocol_engine::perform(command&& next, time_point now) {
  if (auto* const request = std::get_if<pending_request>(&next)) {
    accept(std::move(*request), now);
  } else if (const auto* const cancelled = std::get_if<cancellation>(&next)) {
    cancel(cancelled->id);
  } else if (auto* const question = std::get_if<probe>(&next)) {
    control_.ask(std::move(*question));
  } else if (auto* const opening = std::get_if<session_opening>(&next)) {
    control_.open(std::move(*opening), now);
  } else if (const auto* const closing = std::get_if<session_closing>(&next)) {
    close(*closing);
  } else if (auto* const wanted = std::get_if<subscription_opening>(&next)) {
    subscriptions_.open(std::move(*wanted), now);
  } else if (const auto* const unwanted = std::get_if<subscription_closing>(&next)) {
    subscriptions_.close(unwanted->id);
  } else if (const auto* const wish = std::get_if<arena_wish>(&next)) {
    request_arena(wish->need, now);
  }
}

void protocol_engine::accept(pending_request&& request, time_point now) {
  const std::shared_ptr<session_record> session = request.session;
  if (session != nullptr && !sessions_.holds(*session)) {
    const auto reason = session->ended();
    end(std::move(request), reason.value_or(closed_error()));
    return;
  }
  if (requests_.find(request.id) != nullptr) {
    end(std::move(request), local_error(wire::status::rejected, "a request of the same id is in flight"));
    if (session != nullptr) {
      lose_session(session, "a request of it had an id that is in flight", /*daemon_holds_it=*/true);
    }
    return;
  }
  if (!arena_.contains(request.payload)) {
    request.payload.leave_arena();  // its arena was lost since the caller submitted it
  }
  request.patience = options_.retry_after;
  pending_request& kept = *requests_.insert(std::move(request));
  if (session != nullptr) {
    sessions_.add_request(*session, kept.sequence, kept.id);
  }
  // Only now: a client that sends only small requests needs no pinned memory.
  if (kept.need > 0 && !kept.payload.shared()) {
    request_arena(kept.need, now);
  }
  if (update_pipeline(kept)) {
    send(kept, now);
  }
}

void protocol_engine::cancel(std::uint64_t id) {
  pending_request* const found = requests_.find(id);
  if (found == nullptr) {
    return;
  }
  // Not for a session: its state needs the frames, so they are sent before CANCEL.
  if (!found->sent && found->session == nullptr) {
    finish(id, local_error(wire::status::cancelled, "cancelled before it was sent"));
    return;
  }
  found->cancelled = true;
  if (found->sent && handshake_.ready() && !is_paused(*found)) {
    zmq::message_t message = bare_message(wire::message_type::cancel, id);
    [[maybe_unused]] const bool sent = socket_.send({&message, 1});  // otherwise sent with the repeat
  }
}

void protocol_engine::send(pending_request& request, time_point now) {
  time_point alarm = expiry_of(request);
  if (handshake_.ready() && !is_paused(request)) {
    auto parts = submit_message(request, now, handshake_.known()->inline_bytes());
    if (socket_.send(parts.span())) {
      if (std::exchange(request.sent, true)) {
        atomic_counters::count(counters_.sent_again);
      }
      request.with_daemon = request.with_daemon || request.payload.shared();
      alarm = std::min(expiry_of(request), now + request.patience);
      request.patience = std::min(2 * request.patience, options_.retry_limit);
    }
  }
  requests_.set_alarm(request, alarm);
}

void protocol_engine::send_again(pending_request& request, time_point now) {
  send(request, now);
  if (request.cancelled) {
    cancel(request.id);
  }
}

bool protocol_engine::update_pipeline(pending_request& request) {
  auto now_called = handshake_.known()->find(request.pipeline->name);
  if (now_called != nullptr && now_called->inputs == request.pipeline->inputs) {
    request.pipeline = std::move(now_called);
    return true;
  }
  if (now_called == nullptr && request.session != nullptr) {
    return true;  // the daemon gives the reason
  }
  std::string why = handshake_.known()->why_quarantined(request.pipeline->name);
  if (why.empty()) {
    why = "the daemon came back without the pipeline \"" + request.pipeline->name + "\" as it was, input " +
          request.pipeline->input.text();
  }
  finish(request.id, local_error(wire::status::unknown_pipeline, std::move(why)));
  return false;
}

void protocol_engine::tend(time_point now) {
  handshake_.follow_connection(now);
  while (pending_request* const due = requests_.due(now)) {
    handle_timeout(*due, now);
  }
  resend_in_order(sessions_.resume(now), now);
  handshake_.send_hello_if_due(now);
  control_.tend(now, last_heard_);
  subscriptions_.tend(now, last_heard_);
  update_arena(now);
}

void protocol_engine::handle_timeout(pending_request& request, time_point now) {
  if (expire(request, now)) {
    return;
  }
  if (now - last_heard_ >= options_.retry_after) {
    handshake_.silent(now);
  }
  // After the deadline a repeat is pointless: wait for the daemon's answer until the grace is over. Except in a
  // session, whose later requests need the frames.
  if (request.deadline <= now && request.session == nullptr) {
    requests_.set_alarm(request, expiry_of(request));
    return;
  }
  if (request.session != nullptr) {
    sessions_.repeated(*request.session);
  }
  send_again(request, now);
}

bool protocol_engine::expire(const pending_request& request, time_point now) {
  if (now < expiry_of(request)) {
    return false;
  }
  const std::string reason = is_paused(request) ? "the daemon had no room for its session"
                             : request.sent     ? "no reply came"
                                                : "there was no connection to " + options_.url;
  finish(request.id, local_error(wire::status::expired, reason + " within the request's timeout"));
  return true;
}

time_point protocol_engine::expiry_of(const pending_request& request) const noexcept {
  if (request.deadline == never) {
    return never;
  }
  const bool can_wait = request.sent && request.deadline < never - options_.expiry_grace;
  return can_wait ? request.deadline + options_.expiry_grace : request.deadline;
}

time_point protocol_engine::next_due() const {
  return std::min({requests_.next_alarm(), handshake_.hello_at(), sessions_.next_resume(), arena_.next_due(),
                   control_.next_due(), subscriptions_.next_due()});
}

void protocol_engine::wait(int descriptor) {
  const time_point due = next_due();
  std::chrono::milliseconds at_most{-1};
  if (due != never) {
    const auto remove_request = std::chrono::ceil<std::chrono::milliseconds>(due - clock_now());
    at_most = std::max(remove_request, std::chrono::milliseconds{0});
  }
  arena_readable_ = socket_.wait(descriptor, arena_.descriptor(), at_most);
}

void protocol_engine::close() {
  handshake_.say_goodbye();
  end_all();
}

void protocol_engine::fail(const std::string& reason) {
  failure_ = reason;
  end_all();
}

void protocol_engine::end_all() {
  for (const std::uint64_t id : requests_.ids()) {
    finish(id, closed_error());
  }
  control_.end_all(closed_error());
  subscriptions_.end_all(closed_error());
}

void protocol_engine::refuse(command&& next) {
  if (auto* const request = std::get_if<pending_request>(&next)) {
    end(std::move(*request), closed_error());
  } else if (auto* const question = std::get_if<probe>(&next)) {
    question->reply.set_exception(std::make_exception_ptr(closed_error()));
  } else if (auto* const opening = std::get_if<session_opening>(&next)) {
    opening->opened.set_exception(std::make_exception_ptr(closed_error()));
  } else if (auto* const wanted = std::get_if<subscription_opening>(&next)) {
    wanted->granted.set_exception(std::make_exception_ptr(closed_error()));
  }
}

void protocol_engine::finish(std::uint64_t id, outcome&& reply) {
  auto ended = requests_.take(id);
  if (!ended) {
    return;
  }
  if (ended->session != nullptr && sessions_.remove_request(*ended->session, ended->sequence)) {
    release_session(*ended->session);
  }
  end(std::move(*ended), std::move(reply));
}

void protocol_engine::end(pending_request&& request, outcome&& ended) noexcept {
  credits_.give_back(request.payload.bytes());
  if (auto* const good = std::get_if<result>(&ended)) {
    atomic_counters::count(counters_.results);
    good->set_latency(clock_now() - request.submitted);
  } else {
    atomic_counters::count(counters_.errors);
  }
  if (request.with_daemon && arena_.contains(request.payload)) {
    held_payloads_.emplace(request.id, std::move(request.payload));
  }
  request.payload = payload{};
  try {
    request.done(std::move(ended));
  } catch (...) {
    atomic_counters::count(counters_.thrown);
  }
}

void protocol_engine::close(const session_closing& closing) {
  if (sessions_.close(*closing.record)) {
    release_session(*closing.record);
  }
}

void protocol_engine::release_session(const session_record& record) {
  const std::uint32_t number = record.number();
  sessions_.remove(record);
  zmq::message_t message = close_message(number);
  // Without a connection the daemon drops the idle session later, or the next session of that name replaces it.
  [[maybe_unused]] const bool sent = handshake_.ready() && socket_.send({&message, 1});
  control_.send_unsent_openings(std::chrono::steady_clock::now());
}

void protocol_engine::lose_session(const std::shared_ptr<session_record>& record, const std::string& reason,
                                   bool daemon_holds_it) {
  const request_error lost =
      local_error(wire::status::session_lost, "the session \"" + record->name() + "\" is lost: " + reason);
  record->end(lost);
  const std::vector<std::uint64_t> ids = sessions_.line(*record);
  if (daemon_holds_it && sessions_.holds(*record)) {
    release_session(*record);
  }
  sessions_.remove(*record);
  for (const std::uint64_t id : ids) {
    finish(id, lost);
  }
}

void protocol_engine::lose_all_sessions(const std::string& reason) {
  for (const auto& record : sessions_.all()) {
    lose_session(record, reason, /*daemon_holds_it=*/false);
  }
}

void protocol_engine::repeat_sessions(time_point now) {
  for (const auto& record : sessions_.all()) {
    sessions_.repeated(*record);
    sessions_.resume_at_once(*record);
    resend_in_order(sessions_.line(*record), now);
  }
}

bool protocol_engine::is_paused(const pending_request& request) const {
  return request.session != nullptr && sessions_.pauses(*request.session, request.sequence);
}

void protocol_engine::resend_in_order(const std::vector<std::uint64_t>& ids, time_point now) {
  for (const std::uint64_t id : ids) {
    pending_request* const each = requests_.find(id);
    if (each != nullptr && !expire(*each, now)) {
      each->patience = options_.retry_after;
      send_again(*each, now);
    }
  }
}

void protocol_engine::handle_gap(const std::shared_ptr<session_record>& record, std::uint64_t expected) {
  const session_table::gap gap = sessions_.missing(*record, expected);
  if (gap.lost) {
    lose_session(record, "frame " + std::to_string(expected) + " never reached the daemon, and its request has ended",
                 /*daemon_holds_it=*/true);
  } else {
    resend_in_order(gap.ids, std::chrono::steady_clock::now());
  }
}

void protocol_engine::handle_session_error(pending_request& request, const wire::message_header& header,
                                           daemon_error&& error) {
  const std::shared_ptr<session_record> record = request.session;
  if (header.code == wire::status::sequence_gap) {
    handle_gap(record, header.sequence);
    return;
  }
  if (header.code == wire::status::no_credit) {
    sessions_.refused(*record, request.sequence, std::chrono::steady_clock::now(), options_.retry_after,
                      options_.retry_limit);
    return;
  }
  if (header.code == wire::status::rejected && request.cancelled) {
    return;  // CANCEL arrived before the request did: both are sent again
  }
  const auto kind = wire::kind_of(header.code);
  const bool was_taken = kind == wire::status_kind::expired || kind == wire::status_kind::cancelled ||
                         header.code == wire::status::reply_gone;
  if (was_taken) {
    sessions_.confirmed(*record, request.sequence + request.frames);
    end_with_error(request, std::move(error));
    return;
  }
  const std::string reason = error.error.what();
  const bool daemon_holds_it = kind != wire::status_kind::session_lost;
  end_with_error(request, std::move(error));
  lose_session(record, reason, daemon_holds_it);
}

void protocol_engine::request_arena(std::uint64_t need, time_point now) {
  arena_.want(need, now);
  send_attach(now);
}

void protocol_engine::send_attach(time_point now) {
  if (!arena_.wanted() || !handshake_.ready()) {
    return;
  }
  const std::uint64_t bytes = arena_.size(std::min(options_.shared_bytes, handshake_.known()->server().shared_bytes));
  if (bytes == 0) {
    arena_.failed("the daemon shares no memory with this client", now);
    return;
  }
  auto message = attach_message(bytes);
  if (socket_.send(message)) {
    arena_.asked(now);
  }
}

void protocol_engine::update_arena(time_point now) {
  arena_.tend(now);
  if (std::exchange(arena_readable_, false) && arena_.ended()) {
    lose_arena("the daemon has ended the lease of the shared memory", now);
  }
}

void protocol_engine::handle_attached(const std::vector<zmq::message_t>& parts) {
  const auto body = parts.size() == 2 ? wire::decode_attached(bytes_of(parts[1])) : std::nullopt;
  if (!body) {
    atomic_counters::count(counters_.malformed_replies);
  } else if (!arena_.answered(*body, std::chrono::steady_clock::now())) {
    atomic_counters::count(counters_.unmatched_replies);
  }
}

void protocol_engine::handle_shared_result(const wire::message_header& header,
                                           const std::vector<zmq::message_t>& parts) {
  pending_request* const found = requests_.find(header.request_id);
  if (found == nullptr) {
    note_late_reply(header.request_id, /*holds=*/false);
    return;
  }
  payload& place = found->payload;
  auto good = header.frames == found->frames
                  ? read_shared_result(header, parts, found->pipeline, place.output(), place.output_bytes())
                  : std::nullopt;
  if (!good) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  end_with_result(*found, std::move(*good));
}

void protocol_engine::handle_released(std::uint64_t id) {
  if (pending_request* const found = requests_.find(id)) {
    found->with_daemon = false;
  }
  held_payloads_.erase(id);
}

void protocol_engine::note_late_reply(std::uint64_t id, bool holds) {
  atomic_counters::count(counters_.unmatched_replies);
  if (!holds) {
    held_payloads_.erase(id);
  }
}

// A second UNKNOWN_REPEAT can't be told from the answer to an earlier repeat, when the first try may have had its
// result and its memory may have been reused. So the request continues over the socket.
void protocol_engine::handle_place_refusal(pending_request& request, wire::status reason) {
  const auto now = std::chrono::steady_clock::now();
  if (!request.payload.shared()) {
    return;  // it uses the socket already
  }
  if (reason == wire::status::unknown_arena) {
    lose_arena("the daemon does not know the shared memory any more", now);
    return;
  }
  request.payload.leave_arena();
  request.with_daemon = false;
  if (request.session != nullptr) {
    sessions_.repeated(*request.session);
    resend_in_order(sessions_.line(*request.session), now);
  } else {
    send_again(request, now);
  }
}

void protocol_engine::reset_arena() {
  arena_.forget();
  detach_requests();
}

void protocol_engine::lose_arena(const std::string& reason, time_point now) {
  arena_.lost(reason, now);
  const std::vector<std::uint64_t> ids = detach_requests();
  std::set<const session_record*> sent;
  for (const std::uint64_t id : ids) {
    pending_request* const each = requests_.find(id);
    if (each == nullptr) {
      continue;
    }
    const std::shared_ptr<session_record> session = each->session;
    if (session == nullptr) {
      resend_in_order({id}, now);
    } else if (sent.insert(session.get()).second) {
      sessions_.repeated(*session);
      resend_in_order(sessions_.line(*session), now);
    }
  }
}

std::vector<std::uint64_t> protocol_engine::detach_requests() {
  std::vector<std::uint64_t> ids = requests_.ids();
  const auto stays = [this](std::uint64_t id) { return !requests_.find(id)->payload.shared(); };
  ids.erase(std::remove_if(ids.begin(), ids.end(), stays), ids.end());
  for (const std::uint64_t id : ids) {
    pending_request& each = *requests_.find(id);
    each.payload.leave_arena();
    each.with_daemon = false;
  }
  held_payloads_.clear();  // their arena has ended
  return ids;
}

// CANCEL makes the daemon answer: the reply again, or REJECTED when it has no such request. RELEASED may be lost too,
// so requests whose reply has come are included.
void protocol_engine::query_held_memory() {
  for (const auto& [id, each] : held_payloads_) {
    zmq::message_t message = bare_message(wire::message_type::cancel, id);
    [[maybe_unused]] const bool sent = socket_.send({&message, 1});
  }
}

namespace {

/// True when the status refuses where a request lies, not the request.
bool is_of_arena(wire::status reason) noexcept {
  return reason == wire::status::unknown_arena || reason == wire::status::bad_place ||
         reason == wire::status::unknown_repeat;
}

/// True when the daemon has no such request, neither in flight nor in its reply cache: an answer to CANCEL or a repeat.
bool is_of_none(wire::status reason) noexcept {
  return reason == wire::status::rejected || reason == wire::status::unknown_repeat;
}

}  // namespace

bool protocol_engine::receive(int most) {
  int taken = 0;
  for (; taken < most && socket_.receive(parts_); ++taken) {
    if (taken == 0) {
      last_heard_ = std::chrono::steady_clock::now();
    }
    handle(parts_);
  }
  return taken == most;
}

void protocol_engine::handle(std::vector<zmq::message_t>& parts) {
  wire::message_header header;
  const wire::decode_error wrong = wire::decode(bytes_of(parts.front()), header);
  if (wrong == wire::decode_error::unsupported_version && header.request_id == hello_id) {
    handshake_.handle_unsupported_version();
  }
  if (wrong != wire::decode_error::none) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  switch (header.type) {
    case wire::message_type::result:
      return handle_result(header, parts);
    case wire::message_type::result_shared:
      return handle_shared_result(header, parts);
    case wire::message_type::released:
      return handle_released(header.request_id);
    case wire::message_type::error:
      return handle_error(header, parts);
    case wire::message_type::welcome:
      return handle_welcome(parts);
    case wire::message_type::attached:
      return handle_attached(parts);
    case wire::message_type::pong:
    case wire::message_type::status_report:
    case wire::message_type::trace_report:
      return control_.handle_answer(header, parts);
    case wire::message_type::session_opened:
      return control_.handle_opened(header, parts);
    case wire::message_type::published:
      return subscriptions_.handle_published(header, parts);
    case wire::message_type::publisher:
      return subscriptions_.handle_publisher(header, parts);
    case wire::message_type::subscribed:
      return subscriptions_.handle_subscribed(header, parts);
    case wire::message_type::goodbye:
      return handshake_.say_goodbye();  // the daemon stops, and waits until its replies have arrived
    default:
      atomic_counters::count(counters_.malformed_replies);
  }
}

void protocol_engine::handle_welcome(const std::vector<zmq::message_t>& parts) {
  const auto welcome = handshake_.read(parts);
  if (!welcome) {
    return;
  }
  if (welcome->restarted || welcome->forgotten) {
    lose_all_sessions(welcome->restarted ? "the daemon was restarted"
                                         : "the daemon has given this client's place away");
    reset_arena();
  }
  const bool anew = handshake_.accept(*welcome);
  const auto now = std::chrono::steady_clock::now();
  if (anew) {
    arena_.ask_again();
    send_all_again(now);
    subscriptions_.subscribe_again(welcome->restarted || welcome->forgotten, now);
  }
  send_attach(now);
}

void protocol_engine::send_all_again(time_point now) {
  repeat_sessions(now);
  for (const std::uint64_t id : requests_.ids()) {
    pending_request* const each = requests_.find(id);
    if (each != nullptr && each->session == nullptr && update_pipeline(*each)) {
      each->patience = options_.retry_after;
      handle_timeout(*each, now);
    }
  }
  control_.send_all_again(now);
  query_held_memory();
}

void protocol_engine::handle_result(const wire::message_header& header, std::vector<zmq::message_t>& parts) {
  pending_request* const found = requests_.find(header.request_id);
  if (found == nullptr) {
    note_late_reply(header.request_id, /*holds=*/false);
    return;
  }
  auto good = header.frames == found->frames ? read_result(header, std::move(parts), found->pipeline) : std::nullopt;
  if (!good) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  end_with_result(*found, std::move(*good));
}

void protocol_engine::end_with_result(pending_request& request, result&& good) {
  if (request.session != nullptr) {
    sessions_.confirmed(*request.session, request.sequence + request.frames);
  }
  request.with_daemon = false;
  finish(request.id, std::move(good));
}

void protocol_engine::handle_error(const wire::message_header& header, const std::vector<zmq::message_t>& parts) {
  auto read = read_error(header, parts);
  if (!read) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  request_error& error = read->error;
  if (header.code == wire::status::hello_required) {
    handshake_.required(std::chrono::steady_clock::now());
    return;
  }
  if (header.request_id == hello_id) {
    handshake_.handle_error(header.code, error);
    return;
  }
  if (header.request_id == attach_id) {
    const auto now = std::chrono::steady_clock::now();
    const bool no_room = header.code == wire::status::rejected || header.code == wire::status::too_large;
    arena_.refused(error.what(), no_room, now);
    send_attach(now);
    return;
  }
  if (control_.handle_error(header.request_id, error) || subscriptions_.handle_error(header.request_id, error)) {
    return;
  }
  pending_request* const found = requests_.find(header.request_id);
  if (found == nullptr) {
    note_late_reply(header.request_id, read->holds);
  } else if (found->cancelled && found->session == nullptr && is_of_none(header.code)) {
    error = local_error(wire::status::cancelled, "cancelled; the daemon had no such request");
    end_with_error(*found, std::move(*read));
  } else if (is_of_arena(header.code) && found->payload.output()) {
    handle_place_refusal(*found, header.code);
  } else if (found->session != nullptr) {
    handle_session_error(*found, header, std::move(*read));
  } else {
    end_with_error(*found, std::move(*read));
  }
}

void protocol_engine::end_with_error(pending_request& request, daemon_error&& reason) {
  request.with_daemon = request.with_daemon && reason.holds;
  finish(request.id, std::move(reason.error));
}

}  // namespace penstock::link
