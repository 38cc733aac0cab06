#include "client/cpp/control_requests.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "client/cpp/errors.hpp"
#include "client/cpp/messages.hpp"

namespace penstock::link {
namespace {

wire::message_type answer_to(wire::message_type question) noexcept {
  switch (question) {
    case wire::message_type::get_status:
      return wire::message_type::status_report;
    case wire::message_type::get_trace:
      return wire::message_type::trace_report;
    case wire::message_type::get_values:
    case wire::message_type::set_values:
      return wire::message_type::values;
    default:
      return wire::message_type::pong;
  }
}

}  // namespace

void control_requests::ask(probe&& question) {
  send(probes_.insert_or_assign(question.id, std::move(question)).first->second);
}

void control_requests::send(probe& question) {
  const std::uint32_t session = question.session == nullptr ? 0 : question.session->number();
  std::array<zmq::message_t, 2> message{question_message(question.question, question.id, question.cursor, session),
                                        zmq::message_t{question.body.data(), question.body.size()}};
  const time_point before =
      std::chrono::steady_clock::now();  // before `send`: the answer may arrive before this thread runs again
  if (handshake_.ready() && socket_.send(std::span(message).first(question.body.empty() ? 1U : 2U)) &&
      question.asked == never) {
    question.asked = before;
  }
}

void control_requests::expire_probes(time_point now) {
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

void control_requests::open(session_opening&& opening, time_point now) {
  const std::string pipeline = opening.record->pipeline().name;
  const std::string name = opening.record->name();
  const auto same_name = sessions_.find(pipeline, name);
  const bool being_opened = std::any_of(openings_.begin(), openings_.end(), [&](const auto& each) {
    return each.second.record->pipeline().name == pipeline && each.second.record->name() == name;
  });
  if (being_opened || (same_name != nullptr && !sessions_.is_closing(*same_name))) {
    opening.opened.set_exception(std::make_exception_ptr(local_error(
        wire::status::rejected, "this client has a session \"" + name + "\" open on \"" + pipeline + "\" already")));
    return;
  }
  opening.patience = options_.retry_after;
  send(openings_.insert_or_assign(opening.id, std::move(opening)).first->second, now);
}

void control_requests::send(session_opening& opening, time_point now) {
  opening.repeat = never;
  const auto pipeline = handshake_.known()->find(opening.record->pipeline().name);
  // Wait for a closing session of that name: otherwise OPEN would find that one.
  const bool waits = sessions_.find(opening.record->pipeline().name, opening.record->name()) != nullptr;
  if (pipeline == nullptr || waits || !handshake_.ready()) {
    return;
  }
  auto message = open_message(opening.id, pipeline->id, opening.record->name());
  if (socket_.send(message)) {
    opening.sent = true;
    opening.repeat = now + opening.patience;
    opening.patience = std::min(2 * opening.patience, options_.retry_limit);
  }
}

void control_requests::repeat_openings(time_point now, time_point last_heard) {
  for (auto each = openings_.begin(); each != openings_.end();) {
    session_opening& opening = each->second;
    if (opening.deadline <= now) {
      opening.opened.set_exception(
          std::make_exception_ptr(local_error(wire::status::expired, "no answer from " + options_.url + " in time")));
      each = openings_.erase(each);
      continue;
    }
    if (opening.repeat <= now) {
      if (now - last_heard >= options_.retry_after) {
        handshake_.silent(now);
      }
      send(opening, now);
    }
    ++each;
  }
}

void control_requests::handle_opened(const wire::message_header& header, const std::vector<zmq::message_t>& parts) {
  const auto asked = openings_.find(header.request_id);
  if (asked == openings_.end()) {
    atomic_counters::count(counters_.unmatched_replies);
    return;
  }
  const auto body = parts.size() == 2 ? wire::decode_session_opened(bytes_of(parts[1])) : std::nullopt;
  if (!body || body->session == 0) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  session_opening& opening = asked->second;
  if (body->next_sequence == 0) {
    opening.record->set_number(body->session);
    sessions_.add(opening.record);
    opening.opened.set_value();
    openings_.erase(asked);
    return;
  }
  // An older session of this name, whose CLOSE was lost: close it, and open again with fresh state.
  if (!std::exchange(opening.found_old, true)) {
    zmq::message_t message = close_message(body->session);
    [[maybe_unused]] const bool sent = socket_.send({&message, 1});  // OPEN is repeated after a reconnection
    send(opening, std::chrono::steady_clock::now());
    return;
  }
  opening.opened.set_exception(std::make_exception_ptr(local_error(
      wire::status::rejected, "the daemon does not let go of an older session \"" + opening.record->name() + "\"")));
  openings_.erase(asked);
}

void control_requests::handle_answer(const wire::message_header& header, const std::vector<zmq::message_t>& parts) {
  const auto asked = probes_.find(header.request_id);
  if (asked == probes_.end()) {
    if (header.request_id != 0) {  // id 0: the daemon only probes the connection
      atomic_counters::count(counters_.unmatched_replies);
    }
    return;
  }
  const wire::message_type question = asked->second.question;
  const bool has_body = question != wire::message_type::ping;
  if (header.type != answer_to(question) || parts.size() != (has_body ? 2U : 1U) ||
      (has_body && !wire::is_answer(bytes_of(parts[1])))) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  probe::answer answer{std::chrono::steady_clock::now() - asked->second.asked, {}, header.sequence};
  if (has_body) {
    answer.body.assign(static_cast<const char*>(parts[1].data()), parts[1].size());
  }
  asked->second.reply.set_value(std::move(answer));
  probes_.erase(asked);
}

void control_requests::tend(time_point now, time_point last_heard) {
  expire_probes(now);
  repeat_openings(now, last_heard);
}

time_point control_requests::next_due() const {
  time_point due = never;
  for (const auto& [id, each] : probes_) {
    due = std::min(due, each.deadline);
  }
  for (const auto& [id, each] : openings_) {
    due = std::min({due, each.deadline, each.repeat});
  }
  return due;
}

void control_requests::send_unsent_openings(time_point now) {
  for (auto& [id, each] : openings_) {
    if (!each.sent) {
      send(each, now);
    }
  }
}

void control_requests::send_all_again(time_point now) {
  for (auto& [id, each] : probes_) {
    send(each);
  }
  for (auto& [id, each] : openings_) {
    each.patience = options_.retry_after;
    send(each, now);
  }
}

bool control_requests::handle_error(std::uint64_t id, request_error& error) {
  if (const auto asked = probes_.find(id); asked != probes_.end()) {
    asked->second.reply.set_exception(std::make_exception_ptr(std::move(error)));
    probes_.erase(asked);
    return true;
  }
  if (const auto wanted = openings_.find(id); wanted != openings_.end()) {
    wanted->second.opened.set_exception(std::make_exception_ptr(std::move(error)));
    openings_.erase(wanted);
    return true;
  }
  return false;
}

void control_requests::end_all(const request_error& error) {
  for (auto& [id, each] : probes_) {
    each.reply.set_exception(std::make_exception_ptr(error));
  }
  probes_.clear();
  for (auto& [id, each] : openings_) {
    each.opened.set_exception(std::make_exception_ptr(error));
  }
  openings_.clear();
}

}  // namespace penstock::link
