#include <utility>

#include "client/cpp/exchange.hpp"
#include "client/cpp/local_error.hpp"
#include "client/cpp/outgoing.hpp"
#include "client/cpp/shard_choice.hpp"

namespace penstock::link {
namespace {

wire::message_type answer_to(wire::message_type question) noexcept {
  switch (question) {
    case wire::message_type::get_status:
      return wire::message_type::status_report;
    case wire::message_type::get_trace:
      return wire::message_type::trace_report;
    default:
      return wire::message_type::pong;
  }
}

/// Whether it refuses a way and not a request.
bool is_of_arena(wire::status why) noexcept {
  return why == wire::status::unknown_arena || why == wire::status::bad_place || why == wire::status::unknown_repeat;
}

/// Whether the daemon has no such request, neither in flight nor kept: what it says to a CANCEL or a repeat.
bool is_of_none(wire::status why) noexcept {
  return why == wire::status::rejected || why == wire::status::unknown_repeat;
}

}  // namespace

bool exchange::receive(int most) {
  int taken = 0;
  for (; taken < most && socket_.receive(parts_); ++taken) {
    if (taken == 0) {
      last_heard_ = std::chrono::steady_clock::now();
    }
    handle(parts_);
  }
  return taken == most;
}

void exchange::handle(std::vector<zmq::message_t>& parts) {
  wire::message_header header;
  const wire::decode_error wrong = wire::decode(bytes_of(parts.front()), header);
  if (wrong == wire::decode_error::unsupported_version && header.request_id == hello_id) {
    listener_.refused(request_error{static_cast<std::uint16_t>(wire::status::unsupported_version),
                                    {"the daemon speaks another major version of the protocol", {}, {}, {}}});
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
      return handle_answer(header, parts);
    case wire::message_type::session_opened:
      return handle_opened(header, parts);
    case wire::message_type::goodbye:
      return say_goodbye();  // it stops, and waits for our word that its replies have arrived
    default:
      atomic_counters::count(counters_.malformed_replies);
  }
}

void exchange::handle_welcome(const std::vector<zmq::message_t>& parts) {
  auto body = parts.size() == 2 ? wire::decode_welcome(bytes_of(parts[1])) : std::nullopt;
  if (!body) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  const std::string before = std::exchange(token_, body->resume);
  if (move_to_shard(*body)) {
    return;
  }
  const bool restarted = catalogue_ != nullptr && catalogue_->server().instance != body->instance;
  const bool forgotten = catalogue_ != nullptr && !before.empty() && before != token_;
  if (restarted || forgotten) {
    lose_all(restarted ? "the daemon was restarted" : "the daemon has given this client's place away");
    forget_arena();
  }
  catalogue_ = std::make_shared<const catalogue>(*body, options_.url);
  credits_.grant(body->credit_requests, body->credit_bytes);
  const bool anew = greeting_.welcomed(body->instance, token_);
  listener_.welcomed(catalogue_);
  const auto now = std::chrono::steady_clock::now();
  if (anew) {
    arena_.ask_again();
    send_all_again(now);
  }
  ask_for_arena(now);
}

bool exchange::move_to_shard(const wire::welcome& body) {
  const bool settled = std::exchange(placed_, true) || options_.stays;
  const auto there = settled ? std::nullopt : better_endpoint(body, options_.url);
  if (!there) {
    return false;
  }
  say_goodbye();
  greeting_.disconnected();
  try {
    socket_.connect_to(*there);
    options_.url = *there;
    listener_.moved(options_.url);
  } catch (const zmq::error_t&) {  // an address that this machine can't use: the first shard serves it too
    socket_.connect_to(options_.url);
  }
  return true;
}

void exchange::send_all_again(time_point now) {
  repeat_sessions(now);
  for (const std::uint64_t id : requests_.ids()) {
    pending_request* const each = requests_.find(id);
    if (each != nullptr && each->session == nullptr && renew(*each)) {
      each->patience = options_.retry_after;
      tend_request(*each, now);
    }
  }
  for (auto& [id, each] : probes_) {
    ask(each);
  }
  for (auto& [id, each] : openings_) {
    each.patience = options_.retry_after;
    send(each, now);
  }
  ask_for_places();
}

void exchange::handle_result(const wire::message_header& header, std::vector<zmq::message_t>& parts) {
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
  end_well(*found, std::move(*good));
}

void exchange::end_well(pending_request& what, result&& good) {
  if (what.session != nullptr) {
    sessions_.confirmed(*what.session, what.sequence + what.frames);
  }
  what.with_daemon = false;
  finish(what.id, std::move(good));
}

void exchange::handle_error(const wire::message_header& header, const std::vector<zmq::message_t>& parts) {
  auto read = read_error(header, parts);
  if (!read) {
    atomic_counters::count(counters_.malformed_replies);
    return;
  }
  request_error& error = read->error;
  if (header.code == wire::status::hello_required) {
    greeting_.required(std::chrono::steady_clock::now());
    return;
  }
  if (header.request_id == hello_id) {
    if (header.code != wire::status::too_many_clients || greeting_.no_place(std::chrono::steady_clock::now())) {
      listener_.refused(error);
    } else {
      listener_.shut_out(error.what(), /*for_good=*/false);
    }
    return;
  }
  if (header.request_id == attach_id) {
    const auto now = std::chrono::steady_clock::now();
    const bool no_room = header.code == wire::status::rejected || header.code == wire::status::too_large;
    arena_.refused(error.what(), no_room, now);
    ask_for_arena(now);
    return;
  }
  if (const auto asked = probes_.find(header.request_id); asked != probes_.end()) {
    asked->second.reply.set_exception(std::make_exception_ptr(std::move(error)));
    probes_.erase(asked);
    return;
  }
  if (const auto wanted = openings_.find(header.request_id); wanted != openings_.end()) {
    wanted->second.opened.set_exception(std::make_exception_ptr(std::move(error)));
    openings_.erase(wanted);
    return;
  }
  pending_request* const found = requests_.find(header.request_id);
  if (found == nullptr) {
    note_late_reply(header.request_id, read->holds);
  } else if (found->cancelled && found->session == nullptr && is_of_none(header.code)) {
    error = local_error(wire::status::cancelled, "cancelled; the daemon had no such request");
    end_badly(*found, std::move(*read));
  } else if (is_of_arena(header.code) && found->payload.output()) {
    handle_detour(*found, header.code);
  } else if (found->session != nullptr) {
    handle_session_error(*found, header, std::move(*read));
  } else {
    end_badly(*found, std::move(*read));
  }
}

void exchange::end_badly(pending_request& what, daemon_error&& why) {
  what.with_daemon = what.with_daemon && why.holds;
  finish(what.id, std::move(why.error));
}

void exchange::handle_answer(const wire::message_header& header, const std::vector<zmq::message_t>& parts) {
  const auto asked = probes_.find(header.request_id);
  if (asked == probes_.end()) {
    if (header.request_id != 0) {  // else the daemon only looks whether there is still a connection
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

}  // namespace penstock::link
