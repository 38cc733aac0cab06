#include "client/cpp/exchange.hpp"

#include <algorithm>
#include <utility>

#include "client/cpp/local_error.hpp"
#include "client/cpp/outgoing.hpp"

namespace penstock::link {
namespace {

time_point clock_now() noexcept {
  return std::chrono::steady_clock::now();
}

}  // namespace

exchange::exchange(const client_options& options, credit_gate& credits, arena_slot& arenas, atomic_counters& counters,
                   greeting_listener listener)
    : options_(options),
      credits_(credits),
      counters_(counters),
      listener_(std::move(listener)),
      socket_(options),
      greeting_(options.retry_after, options.retry_limit),
      arena_(arenas, options.shared_at_first, options.retry_after, options.retry_limit),
      last_heard_(clock_now()) {}

request_error exchange::closed_error() const {
  return failure_.empty() ? local_error(wire::status::shutdown, "the client was closed before a reply came")
                          : local_error(wire::status::failed, "the client's thread has ended: " + failure_);
}

void exchange::perform(command&& what, time_point now) {
  if (auto* const request = std::get_if<pending_request>(&what)) {
    accept(std::move(*request), now);
  } else if (const auto* const which = std::get_if<cancellation>(&what)) {
    cancel(which->id);
  } else if (auto* const question = std::get_if<probe>(&what)) {
    ask(probes_.insert_or_assign(question->id, std::move(*question)).first->second);
  } else if (auto* const opening = std::get_if<session_opening>(&what)) {
    open(std::move(*opening), now);
  } else if (const auto* const closing = std::get_if<session_closing>(&what)) {
    close(*closing);
  } else if (const auto* const wish = std::get_if<arena_wish>(&what)) {
    want_arena(wish->need, now);
  }
}

void exchange::accept(pending_request&& what, time_point now) {
  const std::shared_ptr<session_record> session = what.session;
  if (session != nullptr && !sessions_.holds(*session)) {
    const auto why = session->ended();
    end(std::move(what), why.value_or(closed_error()));
    return;
  }
  if (requests_.find(what.id) != nullptr) {
    end(std::move(what), local_error(wire::status::rejected, "a request of the same id is in flight"));
    if (session != nullptr) {
      lose(session, "a request of it had an id that is in flight", /*daemon_holds_it=*/true);
    }
    return;
  }
  if (!arena_.has_place_of(what.payload)) {
    what.payload.leave_arena();  // the one that its caller saw went before it came here
  }
  what.patience = options_.retry_after;
  pending_request& kept = *requests_.insert(std::move(what));
  if (session != nullptr) {
    sessions_.joined(*session, kept.sequence, kept.id);
  }
  // Asked for only now: a client that sends small records alone never costs the daemon pinned memory.
  if (kept.need > 0 && !kept.payload.shared()) {
    want_arena(kept.need, now);
  }
  if (renew(kept)) {
    send(kept, now);
  }
}

void exchange::cancel(std::uint64_t id) {
  pending_request* const found = requests_.find(id);
  if (found == nullptr) {
    return;
  }
  // A session's frames go through its state all the same, so that they are sent first.
  if (!found->sent && found->session == nullptr) {
    finish(id, local_error(wire::status::cancelled, "cancelled before it was sent"));
    return;
  }
  found->cancelled = true;
  if (found->sent && greeting_.ready() && !held_back(*found)) {
    zmq::message_t message = bare_message(wire::message_type::cancel, id);
    [[maybe_unused]] const bool sent = socket_.send({&message, 1});  // else it goes with the repeat
  }
}

void exchange::send(pending_request& what, time_point now) {
  time_point alarm = expiry_of(what);
  if (greeting_.ready() && !held_back(what)) {
    auto parts = submit_message(what, now, catalogue_->inline_bytes());
    if (socket_.send(parts.span())) {
      if (std::exchange(what.sent, true)) {
        atomic_counters::count(counters_.sent_again);
      }
      what.with_daemon = what.with_daemon || what.payload.shared();
      alarm = std::min(expiry_of(what), now + what.patience);
      what.patience = std::min(2 * what.patience, options_.retry_limit);
    }
  }
  requests_.set_alarm(what, alarm);
}

void exchange::send_again(pending_request& what, time_point now) {
  send(what, now);
  if (what.cancelled) {
    cancel(what.id);
  }
}

void exchange::ask(probe& what) {
  zmq::message_t message = question_message(what.question, what.id, what.cursor);
  const time_point before = clock_now();  // sent, the answer may be under way before this thread's next instruction
  if (greeting_.ready() && socket_.send({&message, 1}) && what.asked == never) {
    what.asked = before;
  }
}

bool exchange::renew(pending_request& what) {
  auto now_called = catalogue_->find(what.pipeline->name);
  if (now_called != nullptr && now_called->input == what.pipeline->input) {
    what.pipeline = std::move(now_called);
    return true;
  }
  if (now_called == nullptr && what.session != nullptr) {
    return true;  // the daemon says what became of it
  }
  finish(what.id, local_error(wire::status::unknown_pipeline, "the daemon came back without the pipeline \"" +
                                                                  what.pipeline->name + "\" as it was, input " +
                                                                  what.pipeline->input.text()));
  return false;
}

void exchange::tend(time_point now) {
  for (auto change = socket_.next_change(); change != dealer_socket::change::none; change = socket_.next_change()) {
    note_change(change, now);
  }
  while (pending_request* const due = requests_.due(now)) {
    tend_request(*due, now);
  }
  send_line(sessions_.resume(now), now);
  if (greeting_.hello_at() <= now) {
    auto message = hello_message(hello_id, options_.name, token_);
    if (socket_.send(message)) {
      atomic_counters::count(counters_.hellos);
    }
    greeting_.said(now);
  }
  tend_probes(now);
  tend_openings(now);
  tend_arena(now);
}

void exchange::note_change(dealer_socket::change what, time_point now) {
  using change = dealer_socket::change;
  if (what == change::connected) {
    greeting_.connected(now);
    return;
  }
  greeting_.disconnected();
  if (what == change::unlisted) {
    listener_.shut_out(
        "this client's key is not among the authorised ones: its public key, which penstock keygen --show "
        "FILE prints, belongs into the daemon's security.authorized_keys_file",
        true);
  } else if (what == change::unlike) {
    listener_.shut_out(socket_.has_keys() ? "it asks for no keys: leave the server key and the key file out"
                                          : "it asks for keys: give its public key and a key file of your own",
                       true);
  } else if (what == change::broken_off) {
    listener_.shut_out(socket_.has_keys() ? "the connection is closed during its handshake: is the server key the "
                                            "daemon's, and does it ask for keys?"
                                          : "the connection is closed during its handshake: does the daemon ask for "
                                            "keys?",
                       false);
  }
}

void exchange::tend_request(pending_request& what, time_point now) {
  if (expire(what, now)) {
    return;
  }
  if (now - last_heard_ >= options_.retry_after) {
    greeting_.silent(now);
  }
  // Once its budget is spent there is no point in another try: only the daemon's word is waited for. A session's frames
  // have to arrive all the same, for what follows them.
  if (what.deadline <= now && what.session == nullptr) {
    requests_.set_alarm(what, expiry_of(what));
    return;
  }
  if (what.session != nullptr) {
    sessions_.repeated(*what.session);
  }
  send_again(what, now);
}

bool exchange::expire(const pending_request& what, time_point now) {
  if (now < expiry_of(what)) {
    return false;
  }
  const std::string why = held_back(what) ? "the daemon had no room for its session"
                          : what.sent     ? "no reply came"
                                          : "there was no connection to " + options_.url;
  finish(what.id, local_error(wire::status::expired, why + " within the request's timeout"));
  return true;
}

void exchange::tend_probes(time_point now) {
  for (auto each = probes_.begin(); each != probes_.end();) {
    if (each->second.deadline > now) {
      ++each;
      continue;
    }
    each->second.reply.set_exception(
        std::make_exception_ptr(local_error(wire::status::expired, "no answer from " + options_.url + " in time")));
    each = probes_.erase(each);
  }
}

time_point exchange::expiry_of(const pending_request& what) const noexcept {
  if (what.deadline == never) {
    return never;
  }
  const bool can_wait = what.sent && what.deadline < never - options_.expiry_grace;
  return can_wait ? what.deadline + options_.expiry_grace : what.deadline;
}

time_point exchange::next_due() const {
  time_point due =
      std::min({requests_.next_alarm(), greeting_.hello_at(), sessions_.next_resumption(), arena_.next_due()});
  for (const auto& [id, each] : probes_) {
    due = std::min(due, each.deadline);
  }
  for (const auto& [id, each] : openings_) {
    due = std::min({due, each.deadline, each.repeat});
  }
  return due;
}

void exchange::wait(int descriptor) {
  const time_point due = next_due();
  std::chrono::milliseconds at_most{-1};
  if (due != never) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - clock_now());
    at_most = std::max(left, std::chrono::milliseconds{0});
  }
  arena_stirs_ = socket_.wait(descriptor, arena_.descriptor(), at_most);
}

// Without a connection nobody has to be told.
void exchange::say_goodbye() {
  zmq::message_t message = bare_message(wire::message_type::goodbye, 0);
  [[maybe_unused]] const bool sent = socket_.send({&message, 1});
}

void exchange::close() {
  say_goodbye();
  end_all();
}

void exchange::fail(const std::string& why) {
  failure_ = why;
  end_all();
}

void exchange::end_all() {
  for (const std::uint64_t id : requests_.ids()) {
    finish(id, closed_error());
  }
  for (auto& [id, each] : probes_) {
    each.reply.set_exception(std::make_exception_ptr(closed_error()));
  }
  probes_.clear();
  for (auto& [id, each] : openings_) {
    each.opened.set_exception(std::make_exception_ptr(closed_error()));
  }
  openings_.clear();
}

void exchange::refuse(command&& what) {
  if (auto* const request = std::get_if<pending_request>(&what)) {
    end(std::move(*request), closed_error());
  } else if (auto* const question = std::get_if<probe>(&what)) {
    question->reply.set_exception(std::make_exception_ptr(closed_error()));
  } else if (auto* const opening = std::get_if<session_opening>(&what)) {
    opening->opened.set_exception(std::make_exception_ptr(closed_error()));
  }
}

void exchange::finish(std::uint64_t id, outcome&& how) {
  auto ended = requests_.take(id);
  if (!ended) {
    return;
  }
  if (ended->session != nullptr && sessions_.left(*ended->session, ended->sequence)) {
    let_go(*ended->session);
  }
  end(std::move(*ended), std::move(how));
}

void exchange::end(pending_request&& what, outcome&& how) noexcept {
  credits_.give_back(what.payload.bytes());
  if (auto* const good = std::get_if<result>(&how)) {
    atomic_counters::count(counters_.results);
    good->set_latency(clock_now() - what.submitted);
  } else {
    atomic_counters::count(counters_.errors);
  }
  if (what.with_daemon && arena_.has_place_of(what.payload)) {
    held_.emplace(what.id, std::move(what.payload));
  }
  what.payload = payload{};
  try {
    what.done(std::move(how));
  } catch (...) {
    atomic_counters::count(counters_.thrown);
  }
}

}  // namespace penstock::link
